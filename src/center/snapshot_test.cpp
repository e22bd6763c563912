#include "center/snapshot.h"

#include <filesystem>

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "center/test_center.h"

namespace cohort {
namespace {

// The second of two servers, which share 11 floats; with one slot.
Snapshot testSnapshot() {
  Snapshot snapshot;
  *snapshot.head.mutable_setup() = toWire(tinySetup());
  snapshot.head.set_server(1);
  snapshot.head.set_servers(2);
  snapshot.head.set_version(7);
  snapshot.head.set_applied_below(5);
  snapshot.head.add_applied_above(6);
  snapshot.head.add_applied_above(8);
  snapshot.head.set_done(6);
  snapshot.head.set_next(9);
  snapshot.head.add_open(5);
  snapshot.head.set_dropped(2);
  for (const float first : {1.0F, -2.0F}) {
    FloatBuffer& arena = snapshot.arenas.emplace_back(6);
    for (std::size_t i = 0; i < arena.size(); ++i) arena.span()[i] = first + static_cast<float>(i) / 8;
  }
  return snapshot;
}

struct SnapshotFile : testing::Test {
  SnapshotFile() {
    writeSnapshot(path, testSnapshot());
    bytes = readWholeFile(path);
  }
  // What reading says of other bytes.
  std::string refusalOf(const std::string& contents) const {
    writeTestFile(path, contents);
    std::string sentence = errorOf<IoError>([&] { readSnapshot(path); });
    EXPECT_MENTIONS(sentence, path.string());
    return sentence;
  }

  TestDirectory folder;
  std::filesystem::path path = folder / "server-1.snapshot";
  std::string bytes;
};

TEST_F(SnapshotFile, IsReadAsItWasWritten) {
  const Snapshot expected = testSnapshot();
  std::optional<Snapshot> found = readSnapshot(path);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->head.floats(), 12U);
  found->head.clear_floats();
  found->head.clear_hash();
  EXPECT_EQ(found->head.SerializeAsString(), expected.head.SerializeAsString());
  ASSERT_EQ(found->arenas.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(std::ranges::equal(found->arenas[i].span(), expected.arenas[i].span()));
}

TEST_F(SnapshotFile, ReplacesAnOlderOneAndLeavesNothingBeside) {
  Snapshot newer = testSnapshot();
  newer.head.set_version(8);
  writeSnapshot(path, std::move(newer));
  EXPECT_EQ(readSnapshot(path)->head.version(), 8);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(SnapshotFile, ThatIsMissingIsNothing) {
  EXPECT_FALSE(readSnapshot(folder / "other").has_value());
}

TEST_F(SnapshotFile, OfAnyShorterLengthIsRefused) {
  for (std::size_t length = 0; length < bytes.size(); ++length)
    ASSERT_TRUE(mentions(refusalOf(bytes.substr(0, length)), "is damaged")) << length;
  EXPECT_MENTIONS(refusalOf(bytes + "x"), "is damaged");
  EXPECT_MENTIONS(refusalOf(bytes + "four"), "is damaged");
}

TEST_F(SnapshotFile, WithAnyChangedBitIsRefused) {
  const google::protobuf::LogSilencer quiet;  // it tells of strings that are no UTF-8
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ (1U << bit));
      ASSERT_TRUE(mentions(refusalOf(changed), "is damaged")) << "bit " << bit << " of byte " << at;
    }
  }
}

TEST_F(SnapshotFile, OfAnotherKindIsRefused) {
  std::string other = bytes;
  other.replace(0, 8, "cohortC9");
  EXPECT_MENTIONS(refusalOf(other), "no snapshot of a server");
  EXPECT_MENTIONS(refusalOf(std::string(4096, '\0')), "no snapshot of a server");
}

TEST_F(SnapshotFile, WithALengthThatIsNotThereIsRefusedWithoutMemoryForIt) {
  std::string huge = bytes;
  huge.replace(8, 4, "\xff\xff\xff\xff");
  EXPECT_MENTIONS(refusalOf(huge), "head is too long");
  huge.replace(8, 4, std::string("\xff\xff\0\0", 4));
  EXPECT_MENTIONS(refusalOf(huge), "head is too long");
}

// Whole files, of servers that cannot be.
TEST_F(SnapshotFile, ThatMakesNoSenseIsRefused) {
  const auto refusal = [&](auto&& change) {
    Snapshot snapshot = testSnapshot();
    change(snapshot);
    writeSnapshot(path, std::move(snapshot));
    return errorOf<IoError>([&] { readSnapshot(path); });
  };
  EXPECT_MENTIONS(refusal([](Snapshot& s) { s.head.set_server(2); }), "belongs to no server");
  EXPECT_MENTIONS(refusal([](Snapshot& s) { s.head.set_servers(0); }), "belongs to no server");
  EXPECT_MENTIONS(refusal([](Snapshot& s) { s.head.mutable_setup()->set_rule("none"); }), "makes no sense");
  EXPECT_MENTIONS(refusal([](Snapshot& s) { s.head.set_server(0); }), "another number of floats");
  EXPECT_MENTIONS(refusal([](Snapshot& s) { s.arenas.pop_back(); }), "another number of floats");
}

TEST_F(SnapshotFile, ThatCouldNotBeReadAgainIsNotWritten) {
  Snapshot large = testSnapshot();
  large.head.mutable_setup()->set_config(std::string(std::size_t{64} << 20, 'x'));
  EXPECT_MENTIONS(errorOf<IoError>([&] { writeSnapshot(path, std::move(large)); }), path.string());
  EXPECT_EQ(readWholeFile(path), bytes);
}

TEST(SnapshotSteps, AreTheSameInAHead) {
  StepSet steps(5);
  for (const Step step : {7, 8, 9, 20, 30, 31}) steps.insert(step);
  wire::Snapshot head;
  setApplied(head, steps);
  EXPECT_EQ(head.applied_below(), 5);
  EXPECT_EQ((std::vector<Step>{head.applied_above().begin(), head.applied_above().end()}),
            (std::vector<Step>{7, 10, 20, 21, 30, 32}));
  const StepSet found = appliedOf(head);
  EXPECT_EQ(found.below(), 5);
  EXPECT_EQ(found.stretches(), steps.stretches());
  setApplied(head, StepSet(3));
  EXPECT_EQ(head.applied_above_size(), 0);
}

TEST(SnapshotSteps, ThatMakeNoSenseAreRefused) {
  for (const std::vector<Step>& bounds : std::vector<std::vector<Step>>{
           {6}, {6, 6}, {7, 6}, {5, 6}, {4, 6}, {6, 8, 8, 9}, {6, 8, 7, 9}, {10, 12, 6, 8}, {6, 8, 9}}) {
    wire::Snapshot head;
    head.set_applied_below(5);
    for (const Step bound : bounds) head.add_applied_above(bound);
    EXPECT_MENTIONS(errorOf<UsageError>([&] { appliedOf(head); }), "make no sense");
  }
}

TEST_F(SnapshotFile, ThatCannotBeReadIsAnError) {
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_MENTIONS(errorOf<IoError>([&] { readSnapshot(path); }), path.string());
  EXPECT_MENTIONS(errorOf<IoError>([&] { writeSnapshot(folder / "no" / "where", testSnapshot()); }),
                  (folder / "no").string());
}

}  // namespace
}  // namespace cohort
