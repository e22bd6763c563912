#include "data/cifar.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/test_cifar.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

using Open = std::unique_ptr<ImageSet> (*)(const fs::path&, Split);

template <typename Error>
std::string messageOf(Open open, const fs::path& place, Split split) {
  return errorOf<Error>([&] { open(place, split); });
}

class Cifar10 : public testing::Test {
 protected:
  Cifar10() { writeCifar10(directory_.path(), 3, 4); }

  TestDirectory directory_;
};

TEST_F(Cifar10, IsReadInTheOrderOfItsFiles) {
  EXPECT_TRUE(isCifar10(directory_.path()));
  const auto train = openCifar10(directory_.path(), Split::Train);
  ASSERT_NE(train, nullptr);
  ASSERT_EQ(train->size(), 15);
  EXPECT_EQ(train->shape(), kCifarShape);
  EXPECT_FALSE(train->orderedByClass());
  Image image;
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(train->label(i), i % 10);
    train->read(i, {}, image);
    EXPECT_EQ(image.shape, kCifarShape);
    EXPECT_EQ(image.pixels, cifarPixels(i)) << i;
  }
  EXPECT_EQ(train->nameOf(0), "data_batch_1.bin:0");
  EXPECT_EQ(train->nameOf(2), "data_batch_1.bin:2");
  EXPECT_EQ(train->nameOf(3), "data_batch_2.bin:0");
  EXPECT_EQ(train->nameOf(14), "data_batch_5.bin:2");
  const auto test = openCifar10(directory_.path(), Split::Test);
  ASSERT_EQ(test->size(), 4);
  test->read(3, {}, image);
  EXPECT_EQ(image.pixels, cifarPixels(18));
  EXPECT_EQ(test->label(3), 8);
  EXPECT_EQ(test->nameOf(3), "test_batch.bin:3");
  EXPECT_EQ(openCifar10(directory_.path(), Split::Validation), nullptr);
}

TEST_F(Cifar10, IsFoundInTheFolderOfItsArchive) {
  const TestDirectory outer;
  EXPECT_FALSE(isCifar10(outer.path()));
  EXPECT_FALSE(isCifar10(outer / "none"));
  fs::create_directory(outer / "cifar-10-batches-bin");
  writeCifar10(outer / "cifar-10-batches-bin", 1, 1);
  EXPECT_TRUE(isCifar10(outer.path()));
  EXPECT_EQ(openCifar10(outer.path(), Split::Train)->size(), 5);
  EXPECT_FALSE(isCifar100(outer.path()));
}

TEST_F(Cifar10, TakesItsClassNamesFromTheirFile) {
  EXPECT_EQ(openCifar10(directory_.path(), Split::Test)->classNames(),
            (std::vector<std::string>{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse",
                                      "ship", "truck"}));
  const fs::path names = directory_ / "batches.meta.txt";
  writeTestFile(names, "a\r\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(openCifar10(directory_.path(), Split::Test)->classNames(),
            (std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}));
  for (const char* wrong : {"", "a\nb\nc\nd\ne\nf\ng\nh\ni\n", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk"}) {
    writeTestFile(names, wrong);
    EXPECT_MENTIONS(messageOf<IoError>(openCifar10, directory_.path(), Split::Test), names.string()) << wrong;
  }
}

TEST_F(Cifar10, WithAMissingFileIsRefusedByItsName) {
  for (const char* name : {"data_batch_1.bin", "data_batch_4.bin", "data_batch_5.bin"}) {
    const fs::path away = directory_ / "away";
    fs::rename(directory_ / name, away);
    EXPECT_TRUE(isCifar10(directory_.path()));
    EXPECT_MENTIONS(messageOf<UsageError>(openCifar10, directory_.path(), Split::Train), name);
    EXPECT_NE(openCifar10(directory_.path(), Split::Test), nullptr);
    fs::rename(away, directory_ / name);
  }
  fs::remove(directory_ / "test_batch.bin");
  EXPECT_MENTIONS(messageOf<UsageError>(openCifar10, directory_.path(), Split::Test), "test_batch.bin");
  EXPECT_MENTIONS(messageOf<UsageError>(openCifar10, directory_ / "none", Split::Train), "data_batch_1.bin");
}

TEST_F(Cifar10, OfAWrongSizeIsRefused) {
  const fs::path path = directory_ / "data_batch_3.bin";
  const std::string whole = cifar10File(0, 2);
  for (const std::size_t size : {0, 1, 3072, 3074, 6145}) {
    writeTestFile(path, std::string_view{whole}.substr(0, size));
    const std::string message = messageOf<IoError>(openCifar10, directory_.path(), Split::Train);
    EXPECT_MENTIONS(message, path.string()) << size;
    EXPECT_MENTIONS(message, "has " + std::to_string(size) + " bytes");
  }
  writeTestFile(path, whole + "x");
  EXPECT_MENTIONS(messageOf<IoError>(openCifar10, directory_.path(), Split::Train), "6147");
  writeTestFile(path, whole.substr(3073));
  EXPECT_EQ(openCifar10(directory_.path(), Split::Train)->size(), 13);
}

TEST_F(Cifar10, WithALabelThatCannotBeIsRefused) {
  const fs::path path = directory_ / "data_batch_2.bin";
  for (const char label : {char{10}, static_cast<char>(255)}) {
    std::string file = cifar10File(0, 3);
    file[3073] = label;
    writeTestFile(path, file);
    const std::string message = messageOf<IoError>(openCifar10, directory_.path(), Split::Train);
    EXPECT_MENTIONS(message, path.string() + ": the label of record 1 is ");
    EXPECT_MENTIONS(message, std::to_string(static_cast<unsigned char>(label)));
  }
}

TEST_F(Cifar10, ThatCannotBeReadIsRefused) {
  fs::remove(directory_ / "test_batch.bin");
  fs::create_directory(directory_ / "test_batch.bin");
  EXPECT_MENTIONS(messageOf<UsageError>(openCifar10, directory_.path(), Split::Test), "test_batch.bin");
}

TEST_F(Cifar10, WrittenIsTheSameFile) {
  const fs::path path = directory_ / "written.bin";
  {
    Cifar10Writer unfinished(path);
    unfinished.write(CifarPixels(cifarPixels(0)), 0);
  }
  EXPECT_FALSE(fs::exists(path));
  // More than one buffer.
  Cifar10Writer writer(path);
  for (int i = 0; i < 700; ++i) writer.write(CifarPixels(cifarPixels(i)), i % 10);
  writer.commit();
  EXPECT_TRUE(readWholeFile(path) == cifar10File(0, 700));
}

// ---- CIFAR-100

std::string cifar100File(int first, int count) {
  std::string file;
  for (int i = first; i < first + count; ++i) {
    const std::vector<std::uint8_t> pixels = cifarPixels(i);
    file.push_back(static_cast<char>(i % 20));
    file.push_back(static_cast<char>(99 - i % 100));
    file.append(pixels.begin(), pixels.end());
  }
  return file;
}

class Cifar100 : public testing::Test {
 protected:
  Cifar100() {
    writeTestFile(directory_ / "train.bin", cifar100File(0, 120));
    writeTestFile(directory_ / "test.bin", cifar100File(120, 3));
  }

  TestDirectory directory_;
};

TEST_F(Cifar100, GivesTheFineLabels) {
  EXPECT_TRUE(isCifar100(directory_.path()));
  EXPECT_FALSE(isCifar10(directory_.path()));
  const auto train = openCifar100(directory_.path(), Split::Train);
  ASSERT_EQ(train->size(), 120);
  EXPECT_EQ(train->shape(), kCifarShape);
  ASSERT_EQ(train->classNames().size(), 100u);
  EXPECT_EQ(train->classNames()[99], "99");
  Image image;
  for (int i = 0; i < 120; ++i) {
    EXPECT_EQ(train->label(i), 99 - i % 100);
    train->read(i, {}, image);
    EXPECT_EQ(image.pixels, cifarPixels(i)) << i;
  }
  EXPECT_EQ(train->nameOf(17), "train.bin:17");
  EXPECT_EQ(openCifar100(directory_.path(), Split::Test)->size(), 3);
  EXPECT_EQ(openCifar100(directory_.path(), Split::Validation), nullptr);
}

TEST_F(Cifar100, TakesItsFineClassNamesFromTheirFile) {
  std::string names;
  for (int i = 0; i < 100; ++i) names += "class" + std::to_string(i) + "\n";
  writeTestFile(directory_ / "fine_label_names.txt", names);
  EXPECT_EQ(openCifar100(directory_.path(), Split::Test)->classNames()[57], "class57");
}

TEST_F(Cifar100, IsFoundInTheFolderOfItsArchive) {
  const TestDirectory outer;
  fs::rename(directory_.path(), outer / "cifar-100-binary");
  EXPECT_TRUE(isCifar100(outer.path()));
  EXPECT_EQ(openCifar100(outer.path(), Split::Test)->size(), 3);
}

TEST_F(Cifar100, ThatIsDamagedIsRefused) {
  const fs::path path = directory_ / "test.bin";
  const auto message = [&](const std::string& contents) {
    writeTestFile(path, contents);
    return messageOf<IoError>(openCifar100, directory_.path(), Split::Test);
  };
  const std::string good = cifar100File(0, 2);
  for (const std::size_t size : {0, 1, 2, 3073, 3075, 6147}) {
    EXPECT_MENTIONS(message(good.substr(0, size)), path.string()) << size;
  }
  EXPECT_MENTIONS(message(cifar10File(0, 2)), "it is not whole");
  std::string bad = good;
  bad[3074] = 20;
  EXPECT_MENTIONS(message(bad), "the coarse label of record 1 is 20");
  bad = good;
  bad[3075] = 100;
  EXPECT_MENTIONS(message(bad), "the label of record 1 is 100");
  EXPECT_EQ(message(good), "no error");
  fs::remove(path);
  EXPECT_MENTIONS(messageOf<UsageError>(openCifar100, directory_.path(), Split::Test), "test.bin");
}

}  // namespace
}  // namespace cohort
