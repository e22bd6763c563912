#include "train/safetensors.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string withHeader(std::string_view header, std::size_t payloadBytes) {
  std::string file;
  for (int byte = 0; byte < 8; ++byte) file += static_cast<char>(header.size() >> (8 * byte));
  return file.append(header).append(payloadBytes, '\x01');
}

class Safetensors : public ::testing::Test {
 protected:
  void expectRefused(std::string_view contents, std::string_view why) const {
    writeTestFile(path_, contents);
    const std::string message = errorOf<IoError>([&] { SafetensorsReader{path_}; });
    EXPECT_MENTIONS(message, path_.string());
    EXPECT_MENTIONS(message, why);
  }

  std::vector<float> readAll(const SafetensorsReader& reader, std::string_view name) const {
    std::vector<float> values(reader.find(name)->bytes / sizeof(float));
    reader.read(name, values);
    return values;
  }

  // A small file with two tensors and metadata.
  std::string smallFile() const {
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    const std::vector<TensorToWrite> tensors{{"a", {2, 2}, std::span(values).first(4)},
                                             {"b", {2}, std::span(values).last(2)}};
    writeSafetensors(path_, tensors, {{"step", "12"}});
    return readWholeFile(path_);
  }

  TestDirectory directory_;
  fs::path path_ = directory_ / "x.safetensors";
};

TEST_F(Safetensors, GiveBackWhatWasWritten) {
  std::vector<float> values(60);
  std::iota(values.begin(), values.end(), -7.5f);
  values[3] = std::numeric_limits<float>::infinity();
  values[4] = -0.0f;
  const std::vector<TensorToWrite> tensors{{"z.weight", {3, 4, 2}, std::span(values).first(24)},
                                           {"a.bias", {35}, std::span(values).subspan(24, 35)},
                                           {"scalar", {}, std::span(values).last(1)},
                                           {"nothing", {4, 0}, {}}};
  writeSafetensors(path_, tensors, {{"step", "12"}, {"note", "line\nbreak \"quoted\""}});
  const SafetensorsReader reader(path_);
  EXPECT_EQ(reader.metadata(), (TensorMetadata{{"step", "12"}, {"note", "line\nbreak \"quoted\""}}));
  ASSERT_EQ(reader.tensors().size(), 4u);
  EXPECT_EQ(reader.tensors()[0].name, "z.weight");  // the order of the payload
  for (const TensorToWrite& tensor : tensors) {
    const StoredTensor* stored = reader.find(tensor.name);
    ASSERT_NE(stored, nullptr) << tensor.name;
    EXPECT_EQ(stored->shape, tensor.shape);
    EXPECT_EQ(stored->dtype, "F32");
    const auto read = readAll(reader, tensor.name);
    ASSERT_EQ(read.size(), tensor.values.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(read[i]), std::bit_cast<std::uint32_t>(tensor.values[i]));
    }
  }
}

TEST_F(Safetensors, TakeOddNames) {
  const std::array<float, 1> value{3.0f};
  const std::vector<std::string> names{
      "", " ", "a\"b\\c", "conv1/weight:0", "Größe-层-🦊", "tab\tnewline\n", "dtype", "null"};
  std::vector<TensorToWrite> tensors;
  tensors.reserve(names.size());
  for (const std::string& name : names) tensors.push_back({name, {1}, value});
  writeSafetensors(path_, tensors, {{"", ""}, {"🦊", "层"}});
  const SafetensorsReader reader(path_);
  EXPECT_EQ(reader.metadata(), (TensorMetadata{{"", ""}, {"🦊", "层"}}));
  for (const std::string& name : names) EXPECT_NE(reader.find(name), nullptr) << name;
}

TEST_F(Safetensors, RefuseNamesThatAreNotUtf8AndLeaveNoFile) {
  const std::array<float, 1> value{3.0f};
  const std::vector<TensorToWrite> tensors{{"\xff", {1}, value}};
  EXPECT_THROW(writeSafetensors(path_, tensors, {}), UsageError);
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

TEST_F(Safetensors, HoldNothingIfNothingIsGiven) {
  writeSafetensors(path_, {}, {});
  EXPECT_EQ(readWholeFile(path_), withHeader("{}      ", 0));
  const SafetensorsReader reader(path_);
  EXPECT_TRUE(reader.tensors().empty());
  EXPECT_TRUE(reader.metadata().empty());
}

TEST_F(Safetensors, HaveTheDocumentedBytes) {
  const std::string header =
      R"({"__metadata__":{"step":"12"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})";
  const std::string file = smallFile();
  const std::size_t headerSize = file.size() - 8 - 24;
  EXPECT_EQ(headerSize % 8, 0u);
  EXPECT_EQ(file.substr(8, header.size()), header);
  EXPECT_EQ(file.substr(8 + header.size(), headerSize - header.size()),
            std::string(headerSize - header.size(), ' '));
  EXPECT_EQ(file.substr(0, 8), withHeader(std::string(headerSize, ' '), 0).substr(0, 8));
}

TEST_F(Safetensors, ReplaceAnOlderFile) {
  smallFile();
  writeSafetensors(path_, {}, {{"step", "13"}});
  EXPECT_EQ(SafetensorsReader(path_).metadata().at("step"), "13");
}

TEST_F(Safetensors, AreRefusedAtEveryTruncation) {
  const std::string file = smallFile();
  for (std::size_t size = 0; size < file.size(); ++size) {
    expectRefused(file.substr(0, size), "is not a valid safetensors file");
  }
  expectRefused(file + "x", "25 follow the header");
}

TEST_F(Safetensors, AreRefusedOrReadSafelyAfterAnyBitFlipOfTheHeader) {
  const std::string file = smallFile();
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * (file.size() - 24); ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    writeTestFile(path_, flipped);
    try {
      const SafetensorsReader reader(path_);
      std::uint64_t bytes = 0;
      for (const StoredTensor& tensor : reader.tensors()) {
        bytes += tensor.bytes;
        if (tensor.dtype == "F32") readAll(reader, tensor.name);
      }
      EXPECT_EQ(bytes, 24u);
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 600);
}

TEST_F(Safetensors, AreRefusedWithAMalformedHeader) {
  const auto refused = [&](std::string_view header, std::string_view why) {
    expectRefused(withHeader(header, 4), why);
  };
  refused("", "does not begin with '{'");
  refused("[]", "does not begin with '{'");
  refused("\xef\xbb\xbf{}", "does not begin with '{'");
  refused("{", "is not JSON");
  refused("{}x", "is not JSON");
  refused(std::string_view("{}\0x", 4), "zero byte");
  refused("{\"\xff\":1}", "is not JSON");
  refused(R"({"__metadata__":[]})", "its metadata is not an object");
  refused(R"({"__metadata__":{"a":1}})", "'a' is not a string");
  refused(R"({"a":1})", "'a' is not an object");
  refused(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "'a' has no dtype");
  refused(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", "'a' has no dtype");
  refused(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "unknown dtype 'F33'");
  refused(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "the shape of 'a'");
  refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "the shape of 'a'");
  refused(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "the shape of 'a'");
  refused(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", "the shape of 'a'");
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":4}})", "the data_offsets of 'a'");
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "the data_offsets of 'a'");
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "the data_offsets of 'a'");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "not what its shape needs");
  refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
          "not what its shape needs");
}

TEST_F(Safetensors, AreRefusedWithGapsOverlapsOrDoubleNames) {
  const auto tensor = [](std::string_view name, int begin, int end) {
    std::string text = "\"";
    return text.append(name)
        .append(R"(":{"dtype":"U8","shape":[)")
        .append(std::to_string(end - begin))
        .append(R"(],"data_offsets":[)")
        .append(std::to_string(begin))
        .append(",")
        .append(std::to_string(end))
        .append("]}");
  };
  const auto file = [](const std::string& first, const std::string& second) {
    return withHeader(std::string("{").append(first).append(",").append(second).append("}"), 8);
  };
  writeTestFile(path_, file(tensor("b", 4, 8), tensor("a", 0, 4)));
  EXPECT_EQ(SafetensorsReader(path_).tensors()[0].name, "a");
  expectRefused(file(tensor("a", 0, 4), tensor("b", 5, 8)),
                "'b' begins at byte 5 of the payload instead of 4");
  expectRefused(file(tensor("a", 0, 4), tensor("b", 3, 8)),
                "'b' begins at byte 3 of the payload instead of 4");
  expectRefused(file(tensor("a", 1, 4), tensor("b", 4, 8)), "'a' begins at byte 1");
  expectRefused(file(tensor("a", 0, 4), tensor("b", 4, 9)), "need 9 bytes, but 8 follow");
  expectRefused(file(tensor("a", 0, 4), tensor("b", 4, 7)), "need 7 bytes, but 8 follow");
  expectRefused(file(tensor("a", 0, 4), tensor("a", 4, 8)), "the name 'a' twice");
}

TEST_F(Safetensors, AreRefusedWithAnImpossibleHeaderLength) {
  std::string file = smallFile();
  for (const char high : {'\x7f', '\xff'}) {
    file[7] = high;
    expectRefused(file, "its header should have");
  }
}

TEST_F(Safetensors, TellWhatCannotBeRead) {
  smallFile();
  const SafetensorsReader reader(path_);
  std::array<float, 3> values{};
  const auto messageOf = [&](std::string_view name) {
    return errorOf<IoError>([&] { reader.read(name, values); });
  };
  EXPECT_EQ(messageOf("c"), path_.string() + " has no tensor 'c'.");
  EXPECT_MENTIONS(messageOf("a"), "has 4 values, but 3 are needed");
  EXPECT_THROW(SafetensorsReader(directory_ / "none"), IoError);
  EXPECT_THROW(SafetensorsReader(directory_.path()), IoError);
  writeTestFile(path_, withHeader(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4));
  const SafetensorsReader half(path_);
  EXPECT_THROW(half.read("h", std::span(values).first(1)), IoError);
}

// A file that another program wrote.
TEST_F(Safetensors, OfOtherProgramsAreRead) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  const SafetensorsReader reader(fs::path(vectors) / "burn-multi_layer.safetensors");
  const StoredTensor* weight = reader.find("conv1.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->shape.size(), 4u);
  double magnitude = 0;
  for (const float value : readAll(reader, "conv1.weight"))
    magnitude = std::max(magnitude, std::abs(double{value}));
  EXPECT_GT(magnitude, 0.01);
  EXPECT_LT(magnitude, 10);
}

}  // namespace
}  // namespace cohort
