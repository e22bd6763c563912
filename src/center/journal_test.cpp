#include "center/journal.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "center/journal_writer.h"
#include "center/test_center.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<char>;

Bytes bytesOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void overwrite(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// An update that owns what it points to.
struct OwnUpdate {
  MemberId member = -1;
  Step step = 0;
  Step basis = 0;
  std::vector<ServerVersion> seen{};
  std::vector<GrainRange> grains{};
  std::int64_t exchange = 0;
  std::vector<Step> steps{};
  std::vector<ServerVersion> begunWith{};
  bool isLeaving = false;

  bool operator==(const OwnUpdate&) const = default;
};

OwnUpdate own(const JournalUpdate& update) {
  return {.member = update.member,
          .step = update.step,
          .basis = update.basis,
          .seen = {update.seen.begin(), update.seen.end()},
          .grains = {update.grains.begin(), update.grains.end()},
          .exchange = update.exchange,
          .steps = {update.steps.begin(), update.steps.end()},
          .begunWith = {update.begunWith.begin(), update.begunWith.end()},
          .isLeaving = update.isLeaving};
}

class Journals : public testing::Test {
 protected:
  static JournalHead head(const std::string& rule, int servers, int server) {
    JournalHead head{
        .setup = tinySetup(rule, 8), .server = server, .servers = servers, .life = 0xabcdef01, .version = 5};
    head.setup.step = 5;
    return head;
  }
  fs::path pathOf(const JournalHead& head) const {
    return folder_ / journalName(head.setup.opening, head.server, head.life);
  }
  // The file's path.
  fs::path write(const JournalHead& head, const std::vector<OwnUpdate>& updates) {
    JournalWriter writer(folder_.path(), [](const std::string& warning) { ADD_FAILURE() << warning; });
    writer.begin(head);
    for (const OwnUpdate& update : updates) {
      writer.add({.member = update.member,
                  .step = update.step,
                  .basis = update.basis,
                  .seen = update.seen,
                  .grains = update.grains,
                  .exchange = update.exchange,
                  .steps = update.steps,
                  .begunWith = update.begunWith,
                  .isLeaving = update.isLeaving},
                 static_cast<std::uint64_t>(update.member) + 1000);
    }
    writer.end();
    return pathOf(head);
  }
  static std::vector<OwnUpdate> updatesOf(const Journal& journal) {
    std::vector<OwnUpdate> all;
    for (std::size_t i = 0; i < journal.size(); ++i) all.push_back(own(journal[i]));
    return all;
  }
  // As workers at their own pace make them: with two lives of server 1, and a member that has seen what died.
  static std::vector<OwnUpdate> atOnce(const JournalHead& head, int count) {
    std::mt19937 random(3);
    std::vector<OwnUpdate> updates;
    for (int i = 0; i < count; ++i) {
      const Step version = head.version + i;
      OwnUpdate& update = updates.emplace_back();
      update.member = static_cast<MemberId>(random() % 3);
      update.step = 5 + i + static_cast<Step>(random() % 3);
      for (int server = 0; server < head.servers; ++server) {
        const std::uint64_t life = server == head.server          ? head.life
                                   : server == 1 && i > count / 2 ? 77U
                                                                  : 55U;
        update.seen.push_back({life, std::max<Step>(0, version - static_cast<Step>(random() % 4))});
      }
      update.basis = update.seen[static_cast<std::size_t>(head.server)].version;
    }
    if (count > 10) {
      updates[10].seen[static_cast<std::size_t>(head.server)] = {0x99999999, 100};
      updates[10].basis = 4;
    }
    return updates;
  }

  // The same with weights of their own: each after some steps, of which one may be another's that died.
  static std::vector<OwnUpdate> exchanges(const JournalHead& head, int count) {
    std::mt19937 random(4);
    std::vector<OwnUpdate> updates = atOnce(head, count);
    std::map<MemberId, std::int64_t> numbers;
    for (OwnUpdate& update : updates) {
      update.exchange = ++numbers[update.member];
      for (Step i = static_cast<Step>(random() % 6); i > 0; --i)
        update.steps.push_back(random() % 5 == 0 ? 1 : std::max<Step>(0, update.step - 3 * i));
      update.steps.push_back(update.step);
      if (update.exchange == 1) update.begunWith = update.seen;
    }
    return updates;
  }

  // The same of workers that gossip: one is gone after some of them.
  static std::vector<OwnUpdate> visits(const JournalHead& head, int count) {
    std::vector<OwnUpdate> updates = exchanges(head, count);
    const Step version = head.version + count / 2;
    updates.insert(updates.begin() + count / 2,
                   {.member = updates.front().member, .step = version, .basis = version, .isLeaving = true});
    return updates;
  }

  TestDirectory folder_;
};

TEST_F(Journals, KeepExchangesWithTheStepsBetween) {
  for (const int servers : {1, 2, 5}) {
    const JournalHead head = this->head("easgd", servers, servers - 1);
    const std::vector<OwnUpdate> updates = exchanges(head, 200);
    const fs::path path = write(head, updates);
    const Journal journal = readJournal(path);
    EXPECT_EQ(updatesOf(journal), updates);
    EXPECT_EQ(journal.end(), 205);
    EXPECT_EQ(journal.torn(), 0u);
    EXPECT_EQ(journal.members().size(), 3u);
    fs::remove(path);
  }
}

TEST_F(Journals, KeepThatAVisitorIsGone) {
  const JournalHead head = this->head("gossip", 2, 0);
  const std::vector<OwnUpdate> updates = visits(head, 40);
  const Journal journal = readJournal(write(head, updates));
  EXPECT_EQ(updatesOf(journal), updates);
  EXPECT_EQ(journal.end(), 5 + 41);
}

TEST_F(Journals, AreAFewBytesForAnExchange) {
  const JournalHead head = this->head("easgd", 1, 0);
  const auto none = fs::file_size(write(head, {}));
  fs::remove(pathOf(head));
  std::vector<OwnUpdate> updates;
  constexpr int kCount = 1000;
  constexpr Step kEvery = 4;  // of two workers
  for (Step i = 0; i < kCount; ++i) {
    OwnUpdate& update = updates.emplace_back();
    update.member = static_cast<MemberId>(i % 2);
    update.exchange = i / 2 + 1;
    for (Step step = 0; step < kEvery; ++step) update.steps.push_back(2 * (i / 2 * kEvery + step) + i % 2);
    update.step = update.steps.back();
    update.basis = head.version + i;
    update.seen = {{head.life, update.basis}};
    if (i < 2) update.begunWith = {{head.life, head.version}};
  }
  const fs::path path = write(head, updates);
  EXPECT_EQ(updatesOf(readJournal(path)), updates);
  EXPECT_LT(static_cast<double>(fs::file_size(path) - none) / kCount, 14.1);
}

TEST_F(Journals, KeepUpdatesThatCountAtOnce) {
  for (const int servers : {1, 2, 5}) {
    JournalHead head = this->head("async", servers, servers - 1);
    head.parent = 0x1234;
    head.setup.origin = {.opening = 3, .servers = {{1, 2}, {3, 4}}};
    const std::vector<OwnUpdate> updates = atOnce(head, 200);
    const fs::path path = write(head, updates);
    const Journal journal = readJournal(path);
    EXPECT_EQ(updatesOf(journal), updates);
    EXPECT_EQ(journal.end(), 205);
    EXPECT_EQ(journal.torn(), 0u);
    EXPECT_EQ(journal.head().life, head.life);
    EXPECT_EQ(journal.head().parent, head.parent);
    EXPECT_EQ(journal.head().version, 5);
    EXPECT_EQ(journal.head().server, servers - 1);
    EXPECT_EQ(journal.head().servers, servers);
    EXPECT_EQ(journal.head().setup.origin, head.setup.origin);
    ASSERT_EQ(journal.members().size(), 3u);
    for (const Journal::Member& member : journal.members())
      EXPECT_EQ(member.token, static_cast<std::uint64_t>(member.member) + 1000);
    fs::remove(path);
  }
}

TEST_F(Journals, KeepWhichGrainsCount) {
  const JournalHead head = this->head("backup", 2, 1);
  const std::vector<OwnUpdate> updates{{.step = 5, .basis = 5, .grains = {{0, 2}, {3, 8}}},
                                       {.step = 6, .basis = 6},
                                       {.step = 7, .basis = 7, .grains = {{7, 8}}}};
  EXPECT_EQ(updatesOf(readJournal(write(head, updates))), updates);
}

TEST_F(Journals, KeepWholeStepsInThreeBytesEach) {
  const JournalHead head = this->head("bsp", 2, 0);
  const auto none = fs::file_size(write(head, {}));
  fs::remove(pathOf(head));
  const fs::path path = write(head, {{.step = 5, .basis = 5}, {.step = 6, .basis = 6}});
  EXPECT_EQ(readJournal(path).size(), 2u);
  EXPECT_EQ(fs::file_size(path), none + 2 * 3);
}

TEST_F(Journals, AreAFewBytesForAnUpdate) {
  for (const int servers : {1, 2}) {
    const JournalHead head = this->head("async", servers, 0);
    const auto none = fs::file_size(write(head, {}));
    fs::remove(pathOf(head));
    std::vector<OwnUpdate> updates;
    for (int i = 0; i < 1000; ++i) {
      const Step version = head.version + i;
      updates.push_back({.member = i % 2, .step = version + i % 2, .basis = version - 1});
      updates.back().seen.push_back({head.life, version - 1});
      if (servers > 1) updates.back().seen.push_back({55, version - 1});
    }
    const fs::path path = write(head, updates);
    EXPECT_EQ(updatesOf(readJournal(path)), updates);
    EXPECT_LT(static_cast<double>(fs::file_size(path) - none) / 1000, 5.1 + servers - 1);
    fs::remove(path);
  }
}

TEST_F(Journals, LeaveOutATornTail) {
  for (const std::string rule : {"async", "easgd", "gossip", "backup"}) {
    const JournalHead head = this->head(rule, 2, 0);
    std::vector<OwnUpdate> updates = rule == "async"    ? atOnce(head, 12)
                                     : rule == "gossip" ? visits(head, 12)
                                                        : exchanges(head, 12);
    if (rule == "backup")
      updates = {{.step = 5, .basis = 5, .grains = {{0, 2}, {3, 8}}}, {.step = 6, .basis = 6}};
    const fs::path path = write(head, {});
    const Bytes before = bytesOf(path);
    fs::remove(path);
    write(head, updates);
    const Bytes whole = bytesOf(path);
    std::size_t last = 0;
    for (std::size_t size = before.size(); size < whole.size(); ++size) {
      overwrite(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
      const Journal journal = readJournal(path);
      ASSERT_GE(journal.size(), last);
      last = journal.size();
      ASSERT_LT(last, updates.size());
      EXPECT_EQ(updatesOf(journal),
                std::vector(updates.begin(), updates.begin() + static_cast<std::ptrdiff_t>(last)));
      // A machine that went down may have left zeros where bytes should have come.
      Bytes zeros(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      zeros.resize(size + 4096);
      overwrite(path, zeros);
      EXPECT_LE(readJournal(path).size(), last + 1);
    }
    EXPECT_EQ(last, updates.size() - 1);
    for (std::size_t size = 0; size < before.size(); ++size) {
      overwrite(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
      EXPECT_THROW(readJournal(path), IoError);
    }
    fs::remove(path);
  }
}

TEST_F(Journals, NameWhatWasChanged) {
  const JournalHead head = this->head("async", 2, 0);
  const std::vector<OwnUpdate> updates = atOnce(head, 100);
  const fs::path path = write(head, {});
  const std::size_t begin = bytesOf(path).size();
  fs::remove(path);
  write(head, updates);
  const Bytes whole = bytesOf(path);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x11);
    overwrite(path, changed);
    try {
      const Journal journal = readJournal(path);
      // It may look like a tail that is not whole, but never like another update.
      ASSERT_LT(journal.size(), updates.size()) << at;
      ASSERT_GT(journal.torn(), 0u);
      ASSERT_GT(at + 200, whole.size());
      const std::vector<OwnUpdate> read = updatesOf(journal);
      EXPECT_TRUE(std::equal(read.begin(), read.end(), updates.begin()));
    } catch (const IoError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
      if (at >= begin) {
        EXPECT_NE(std::string(error.what()).find("does not fit its check"), std::string::npos)
            << error.what();
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()) - 200);
}

TEST_F(Journals, AreWithTheSystemWhenFlushed) {
  const JournalHead head = this->head("bsp", 1, 0);
  JournalWriter writer(folder_.path(), [](const std::string&) {});
  writer.begin(head);
  const fs::path path = pathOf(head);
  writer.add({.step = 5}, 0);
  EXPECT_EQ(readJournal(path).size(), 0u);
  writer.flush();
  EXPECT_EQ(readJournal(path).size(), 1u);
}

TEST_F(Journals, EndWithAWarningWhereTheyCannotBeWritten) {
  const JournalHead head = this->head("bsp", 1, 0);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& warning) { warnings.push_back(warning); };
  JournalWriter writer("/dev/null/nowhere", warn);
  writer.begin(head);
  writer.add({.step = 5}, 0);
  writer.flush();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings.front().find("/dev/null/nowhere"), std::string::npos);
}

TEST(Moments, AreTexts) {
  const CenterMoment moment{.opening = 0xfedcba9876543210, .servers = {{0x1f, 0}, {7, 1234567}}};
  EXPECT_EQ(toText(moment), "fedcba9876543210 1f@0 7@1234567");
  EXPECT_EQ(momentFromText(toText(moment)), moment);
  EXPECT_EQ(toText(CenterMoment{}), "");
  for (const char* text : {"", "1", "1 2", "1 2@", "1 2@-3", "1 2@3x", "1  2@3", "x 2@3", "1 2@3 "})
    EXPECT_FALSE(momentFromText(text)) << text;
}

// ---- what a server writes

class JournaledCenter : public Journals {
 protected:
  JournaledCenter() : writer(folder_.path(), [](const std::string& warning) { ADD_FAILURE() << warning; }) {}

  Journal only() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_.path())) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return readJournal(files.front());
  }
  static wire::Envelope push(Step step, const std::vector<ServerVersion>& seen, Step basis) {
    wire::Envelope word = words::push({.step = step, .basis = basis});
    for (const ServerVersion& version : seen) *word.mutable_push()->add_seen() = toWire(version);
    return word;
  }

  JournalWriter writer;
};

TEST_F(JournaledCenter, HasEveryUpdateBeforeItsWeightsAreShown) {
  SpokenCenter center({.life = 9}, &writer);
  center.open(1, tinySetup());
  center.join(2);
  const std::vector<float> gradient(kTinySize, 1);
  center.say(2, push(1, {{9, 0}}, 0), gradient);
  center.say(1, push(0, {{9, 0}}, 0), gradient);
  EXPECT_EQ(only().size(), 0u);  // nobody has seen them
  center.say(1, words::pull(0));
  const Journal journal = only();
  ASSERT_EQ(journal.size(), 2u);
  EXPECT_EQ(own(journal[0]), (OwnUpdate{.member = 1, .step = 1, .basis = 0, .seen = {{9, 0}}}));
  EXPECT_EQ(own(journal[1]), (OwnUpdate{.member = 0, .step = 0, .basis = 0, .seen = {{9, 0}}}));
  EXPECT_EQ(journal.head().life, 9u);
  EXPECT_EQ(journal.head().setup.opening, tinySetup().opening);
  EXPECT_FALSE(journal.head().parent);
}

TEST_F(JournaledCenter, WantsToKnowWhichWeightsWereSeen) {
  SpokenCenter center({.life = 9}, &writer);
  center.open(1, tinySetup());
  const std::vector<float> gradient(kTinySize);
  EXPECT_EQ(center.refusalOf(1, words::push({}), std::as_bytes(std::span(gradient))),
            "a gradient says which weights it was computed with");
}

TEST_F(JournaledCenter, KeepsNothingOfAGradientThatComesTwice) {
  SpokenCenter center({.life = 9}, &writer);
  center.open(1, tinySetup());
  const std::vector<float> gradient(kTinySize, 1);
  center.say(1, push(0, {{9, 0}}, 0), gradient);
  center.say(1, push(0, {{9, 0}}, 0), gradient);
  center.say(1, words::pull(0));
  EXPECT_EQ(only().size(), 1u);
}

TEST_F(JournaledCenter, GoesOnFromASnapshotInAnotherLife) {
  Snapshot snapshot;
  {
    SpokenCenter center({.life = 9}, &writer);
    center.open(1, tinySetup());
    center.say(1, push(0, {{9, 0}}, 0), std::vector<float>(kTinySize, 1));
    snapshot = center.center.snapshot();
    EXPECT_EQ(only().size(), 1u);  // a snapshot shows it as well
  }
  SpokenCenter again({.life = 10}, &writer);
  again.center.restore(std::move(snapshot));
  const Journal journal = readJournal(folder_ / journalName(tinySetup().opening, 0, 10));
  EXPECT_EQ(journal.head().parent, 9u);
  EXPECT_EQ(journal.head().version, 1);
}

}  // namespace
}  // namespace cohort
