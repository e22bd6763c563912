#include "data/tfrecord.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/record_file.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/example.pb.h"
#include "data/packed_images.h"
#include "data/test_cifar.h"
#include "data/test_images.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// ---- examples

class ExampleBuilder {
 public:
  ExampleBuilder& bytes(const std::string& name, const std::string& value) {
    feature(name).mutable_bytes_list()->add_value(value);
    return *this;
  }
  ExampleBuilder& number(const std::string& name, std::int64_t value) {
    feature(name).mutable_int64_list()->add_value(value);
    return *this;
  }
  ExampleBuilder& real(const std::string& name, float value) {
    feature(name).mutable_float_list()->add_value(value);
    return *this;
  }
  std::string record() const { return frameRecord(example_.SerializeAsString()); }

 private:
  proto::Feature& feature(const std::string& name) {
    return (*example_.mutable_features()->mutable_feature())[name];
  }

  proto::Example example_;
};

std::string textOf(const std::vector<std::uint8_t>& pixels) {
  return {pixels.begin(), pixels.end()};
}

std::string cifarText(int image) {
  return textOf(cifarPixels(image));
}

std::string cifarRecord(int image, std::int64_t label) {
  return ExampleBuilder().bytes("image", cifarText(image)).number("label", label).record();
}

class Tfrecord : public testing::Test {
 protected:
  std::unique_ptr<ImageSet> openFile(std::string_view contents) const {
    writeTestFile(file_, contents);
    return openTfrecords(file_, Split::Train);
  }

  // What is said of a file with these contents; it names the file.
  template <typename Error = IoError>
  std::string refusal(std::string_view contents) const {
    std::string message = errorOf<Error>([&] { openFile(contents); });
    if (message != "no error") {
      EXPECT_MENTIONS(message, file_.string());
    }
    return message;
  }

  void write(const std::string& name, std::string_view contents) const {
    writeTestFile(directory_ / name, contents);
  }

  // The labels of a split of the folder.
  std::vector<std::int32_t> labels(Split split) const {
    const auto set = openTfrecords(directory_.path(), split);
    std::vector<std::int32_t> found;
    for (std::int64_t i = 0; set != nullptr && i < set->size(); ++i) found.push_back(set->label(i));
    return found;
  }

  // Packed, the file's images are what they were, however they are asked for.
  void expectSameWhenPacked() const {
    const auto set = openTfrecords(file_, Split::Train);
    packImages([&](Split split) { return openTfrecords(file_, split); }, directory_ / "packed");
    const auto packed = openPackedImages(directory_ / "packed", Split::Train);
    ASSERT_NE(packed, nullptr);
    ASSERT_EQ(packed->size(), set->size());
    EXPECT_EQ(packed->shape(), set->shape());
    for (const ImageRequest& request : {ImageRequest{.channels = 3}, ImageRequest{.channels = 1},
                                        ImageRequest{.channels = 3, .height = 9, .width = 9}}) {
      for (std::int64_t i = 0; i < set->size(); ++i) {
        Image before;
        Image after;
        set->read(i, request, before);
        packed->read(i, request, after);
        EXPECT_EQ(after.shape, before.shape) << "image " << i;
        EXPECT_EQ(after.pixels, before.pixels) << "image " << i;
      }
    }
  }

  TestDirectory directory_;
  fs::path file_ = directory_ / "some.tfrecord";
};

// ---- images and labels

TEST_F(Tfrecord, OfCifarIsReadAsPlanes) {
  const auto set = openFile(cifarRecord(0, 3) + cifarRecord(1, 0) + cifarRecord(2, 7));
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->shape(), kCifarShape);
  EXPECT_EQ(set->classNames(), (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
  EXPECT_EQ(set->label(0), 3);
  EXPECT_EQ(set->label(1), 0);
  EXPECT_EQ(set->label(2), 7);
  EXPECT_EQ(set->nameOf(2), "some.tfrecord:2");
  Image image;
  for (int i = 0; i < 3; ++i) {
    set->read(i, {}, image);
    EXPECT_EQ(image.shape, kCifarShape);
    EXPECT_EQ(image.pixels, cifarPixels(i)) << i;
  }
}

TEST_F(Tfrecord, WithHeightAndWidthIsReadAsInterleaved) {
  const std::string pixels = "abcdefghijklmnopqr";  // 2x3 pixels of three channels
  const auto set = openFile(ExampleBuilder()
                                .bytes("image_raw", pixels)
                                .number("label", 1)
                                .number("height", 2)
                                .number("width", 3)
                                .number("depth", 3)
                                .record());
  EXPECT_EQ(set->shape(), (SampleShape{.channels = 3, .height = 2, .width = 3}));
  EXPECT_EQ(set->classNames().size(), 2u);
  Image image;
  set->read(0, {}, image);
  EXPECT_EQ(textOf(image.pixels), "adgjmpbehknqcfilor");
  // Sizes that are given say more than the number of bytes.
  const auto wide = openFile(ExampleBuilder()
                                 .bytes("image", cifarText(0))
                                 .number("label", 0)
                                 .number("image/height", 48)
                                 .number("image/width", 64)
                                 .record());
  EXPECT_EQ(wide->shape(), (SampleShape{.channels = 1, .height = 48, .width = 64}));
  wide->read(0, {.channels = 1}, image);
  EXPECT_EQ(image.pixels, cifarPixels(0));
}

TEST_F(Tfrecord, GivesAsManyChannelsAsAreAskedFor) {
  const auto example = [](const std::string& pixels) {
    return ExampleBuilder()
        .bytes("image", pixels)
        .number("label", 0)
        .number("height", 1)
        .number("width", 2)
        .record();
  };
  const auto set = openFile(example("\x0a\x14") + example("\xff\xff\xff\x64\x32\x0a"));
  EXPECT_EQ(set->shape(), (SampleShape{.channels = 3, .height = 1, .width = 2}));
  Image image;
  set->read(0, {.channels = 3}, image);
  EXPECT_EQ(image.shape.channels, 3);
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{10, 20, 10, 20, 10, 20}));
  set->read(1, {.channels = 1}, image);
  EXPECT_EQ(image.shape.channels, 1);
  // 0.299 * 100 + 0.587 * 50 + 0.114 * 10 = 60.39
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{255, 60}));
  set->read(0, {.channels = 1}, image);
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{10, 20}));
}

TEST_F(Tfrecord, OfDifferentSizesSaysSo) {
  const auto example = [](std::int64_t height) {
    return ExampleBuilder()
        .bytes("image", std::string(static_cast<std::size_t>(height) * 4, 'x'))
        .number("label", 0)
        .number("height", height)
        .number("width", 4)
        .number("depth", 1)
        .record();
  };
  EXPECT_EQ(openFile(example(5) + example(5))->shape(),
            (SampleShape{.channels = 1, .height = 5, .width = 4}));
  const auto set = openFile(example(5) + example(6) + example(5));
  EXPECT_EQ(set->shape(), (SampleShape{.channels = 1, .height = 0, .width = 0}));
  Image image;
  set->read(1, {.channels = 1}, image);
  EXPECT_EQ(image.shape, (SampleShape{.channels = 1, .height = 6, .width = 4}));
}

TEST_F(Tfrecord, OfPngImagesIsDecoded) {
  Image image;
  image.reshape({.channels = 3, .height = 2, .width = 3});
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(10 * i);
  const std::string png = encodePng(image);
  const auto set = openFile(ExampleBuilder()
                                .bytes("image/encoded", png)
                                .number("image/class/label", 2)
                                .number("image/height", 99)  // the image itself knows better
                                .bytes("image/class/text", "tulip")
                                .bytes("image/filename", "a/b.png")
                                .record());
  EXPECT_EQ(set->shape(), image.shape);
  EXPECT_EQ(set->label(0), 2);
  EXPECT_EQ(set->classNames(), (std::vector<std::string>{"0", "1", "tulip"}));
  EXPECT_EQ(set->nameOf(0), "a/b.png");
  Image read;
  set->read(0, {.channels = 3}, read);
  EXPECT_EQ(read.pixels, image.pixels);
  set->read(0, {.channels = 1}, read);
  EXPECT_EQ(read.shape.channels, 1);
  // Found damaged when it is read, by file and record.
  const std::string cut =
      ExampleBuilder().bytes("image", png.substr(0, png.size() - 20)).number("label", 0).record();
  const auto damaged = openFile(cut + cut);
  EXPECT_MENTIONS(errorOf<IoError>([&] { damaged->read(1, {}, read); }), file_.string() + ": record 1");
}

TEST_F(Tfrecord, GivesJpegAndPngFilesAsTheyAreStored) {
  const std::string jpeg = jpegOf(smoothImage({.channels = 3, .height = 40, .width = 60}));
  const std::string png = encodePng(smoothImage({.channels = 1, .height = 20, .width = 30}));
  const auto example = [](const std::string& file) {
    return ExampleBuilder().bytes("image/encoded", file).number("label", 0);
  };
  const auto set = openFile(example(jpeg).record() + example(png).record());
  std::string bytes;
  ASSERT_TRUE(set->encoded(0, bytes));
  EXPECT_EQ(bytes, jpeg);
  ASSERT_TRUE(set->encoded(1, bytes));
  EXPECT_EQ(bytes, png);
  Image image;
  set->read(0, {.channels = 3, .height = 9, .width = 9}, image);
  EXPECT_LT(image.shape.height, 40) << "decoded at a reduced scale";
  expectSameWhenPacked();
}

TEST_F(Tfrecord, GivesPixelsAsFilesWhereTheyAreNotAllOfOneShape) {
  const auto example = [](SampleShape shape, int phase) {
    const Image image = smoothImage(shape, phase);
    std::string interleaved;
    const std::size_t plane = shape.count() / static_cast<std::size_t>(shape.channels);
    for (std::size_t i = 0; i < shape.count(); ++i) {
      const auto channels = static_cast<std::size_t>(shape.channels);
      interleaved.push_back(static_cast<char>(image.pixels[i % channels * plane + i / channels]));
    }
    return ExampleBuilder()
        .bytes("image", interleaved)
        .number("label", 0)
        .number("height", shape.height)
        .number("width", shape.width)
        .record();
  };
  std::string bytes = "untouched";
  EXPECT_FALSE(openFile(example({3, 20, 30}, 1) + example({3, 20, 30}, 2))->encoded(0, bytes));
  EXPECT_FALSE(openFile(cifarRecord(0, 1))->encoded(0, bytes));
  EXPECT_EQ(bytes, "untouched");

  const std::string pixels = example({3, 20, 30}, 1) + example({1, 33, 8}, 2);
  EXPECT_TRUE(openFile(pixels)->encoded(1, bytes));
  expectSameWhenPacked();
  const std::string png = encodePng(smoothImage({.channels = 3, .height = 20, .width = 30}));
  const auto mixed =
      openFile(example({3, 20, 30}, 1) + ExampleBuilder().bytes("image", png).number("label", 1).record());
  ASSERT_TRUE(mixed->encoded(1, bytes));
  EXPECT_EQ(bytes, png);
  EXPECT_TRUE(mixed->encoded(0, bytes));
  expectSameWhenPacked();
}

TEST_F(Tfrecord, TakesLabelsThatAreWholeFloats) {
  const auto withLabel = [](float label) {
    return ExampleBuilder().bytes("image", cifarText(0)).real("label", label).record();
  };
  EXPECT_EQ(openFile(withLabel(12.0f))->label(0), 12);
  EXPECT_EQ(openFile(withLabel(12.0f))->classNames().size(), 13u);
  for (const float wrong : {0.5f, -1.0f, std::nanf(""), HUGE_VALF, 1e30f}) {
    EXPECT_MENTIONS(refusal(withLabel(wrong)), "record 0 has ") << wrong;
  }
}

TEST_F(Tfrecord, WithoutAUsableLabelIsRefused) {
  const std::string good = cifarRecord(0, 0);
  const auto refused = [&](const ExampleBuilder& example) { return refusal(good + example.record()); };
  ExampleBuilder image;
  image.bytes("image", cifarText(1));
  EXPECT_MENTIONS(refused(image), "record 1 has no label (a feature 'label' or 'image/class/label')");
  EXPECT_MENTIONS(refused(ExampleBuilder(image).number("label", -1)), "record 1 has the label -1");
  EXPECT_MENTIONS(refused(ExampleBuilder(image).number("label", 1 << 20)), "record 1 has the label 1048576");
  EXPECT_MENTIONS(refused(ExampleBuilder(image).number("label", INT64_MAX)), "record 1 has the label 9");
  EXPECT_MENTIONS(refused(ExampleBuilder(image).number("label", 1).number("label", 2)), "one whole number");
  EXPECT_MENTIONS(refused(ExampleBuilder(image).bytes("label", "1")), "one whole number");
  EXPECT_EQ(refused(ExampleBuilder(image).number("label", (1 << 20) - 1)), "no error");
}

TEST_F(Tfrecord, WithoutAUsableImageIsRefused) {
  const std::string good = cifarRecord(0, 0);
  ExampleBuilder label;
  label.number("label", 1);
  const auto refused = [&](const ExampleBuilder& example) { return refusal(good + example.record()); };
  EXPECT_MENTIONS(refused(label), "record 1 has no image");
  EXPECT_MENTIONS(refused(ExampleBuilder(label).bytes("image", "")), "not one image's bytes");
  EXPECT_MENTIONS(refused(ExampleBuilder(label).real("image", 1)), "not one image's bytes");
  EXPECT_MENTIONS(refused(ExampleBuilder(label).bytes("image", "a").bytes("image", "b")), "not one image's");
  for (const std::size_t size : {1, 3071, 3073}) {
    EXPECT_MENTIONS(refused(ExampleBuilder(label).bytes("image", std::string(size, 'x'))),
                    "record 1 has an image of " + std::to_string(size) + " bytes");
  }
  const auto sized = [&](std::size_t bytes, std::int64_t height, std::int64_t width, std::int64_t depth) {
    ExampleBuilder example = label;
    example.bytes("image", std::string(bytes, 'x')).number("height", height).number("width", width);
    if (depth != 0) example.number("depth", depth);
    return refused(example);
  };
  EXPECT_EQ(sized(24, 2, 4, 3), "no error");
  EXPECT_EQ(sized(24, 2, 4, 0), "no error");
  EXPECT_MENTIONS(sized(23, 2, 4, 3), "record 1 has an image of 23 bytes");
  EXPECT_MENTIONS(sized(25, 2, 4, 0), "record 1 has an image of 25 bytes");
  EXPECT_MENTIONS(sized(3072, 32, 33, 3), "record 1 has an image of 3072 bytes");
  EXPECT_MENTIONS(sized(16, 2, 4, 2), "record 1 has an image of 16 bytes");
  EXPECT_MENTIONS(sized(16, 2, 4, 0), "record 1 has an image of 16 bytes");
  EXPECT_MENTIONS(sized(24, 0, 4, 3), "'height'");
  EXPECT_MENTIONS(sized(24, 2, -4, 3), "'width'");
  EXPECT_MENTIONS(sized(24, 2, INT64_MAX, 3), "'width'");
  EXPECT_MENTIONS(sized(24, 2, 4, INT64_MAX), "'depth'");
  EXPECT_MENTIONS(refused(ExampleBuilder(label).bytes("image", "abcdef").number("height", 2)),
                  "no height and width");
}

TEST_F(Tfrecord, KeepsOnlyNamesThatCanBePrinted) {
  const auto named = [](const std::string& name) {
    return ExampleBuilder()
        .bytes("image", cifarText(0))
        .number("label", 0)
        .bytes("id", name)
        .bytes("image/class/text", name)
        .record();
  };
  const auto set = openFile(named("train_1") + named("\x1b[31m") + named("") + named(std::string(256, 'x')));
  EXPECT_EQ(set->nameOf(0), "train_1");
  for (int i = 1; i < 4; ++i) EXPECT_EQ(set->nameOf(i), "some.tfrecord:" + std::to_string(i));
  EXPECT_EQ(set->classNames()[0], "train_1");
  EXPECT_EQ(openFile(named("\n"))->classNames()[0], "0");
}

// ---- damaged files

TEST_F(Tfrecord, ThatEndsInsideARecordIsRefused) {
  const auto small = [](int label) {
    return ExampleBuilder()
        .bytes("image", "x")
        .number("label", label)
        .number("height", 1)
        .number("width", 1)
        .record();
  };
  const std::string first = small(0);
  const std::string contents = first + small(1);
  for (std::size_t size = 0; size < contents.size(); ++size) {
    const std::string message = refusal(std::string_view{contents}.substr(0, size));
    if (size == first.size()) {
      EXPECT_EQ(message, "no error");
    } else {
      EXPECT_MENTIONS(message, size == 0 ? "no record" : "is damaged") << size;
    }
  }
}

TEST_F(Tfrecord, WithAFlippedBitIsRefused) {
  const std::string good = cifarRecord(0, 1) + cifarRecord(1, 2);
  for (std::size_t at = 0; at < good.size(); at += 13) {
    std::string bad = good;
    bad[at] ^= 0x10;
    EXPECT_MENTIONS(refusal(bad), "wrong checksum") << at;
  }
}

TEST_F(Tfrecord, WhoseRecordsAreNoExamplesIsRefused) {
  for (const std::string& data : {std::string("text that is not a message"), std::string("\x0a\xff", 2)}) {
    EXPECT_MENTIONS(refusal(cifarRecord(0, 0) + frameRecord(data)), "record 1 is not a tf.train.Example");
  }
  // A message without any feature.
  EXPECT_MENTIONS(refusal(frameRecord("")), "record 0 has no image");
}

// Every way to cut or change the message inside a good frame is either another good example or refused.
TEST_F(Tfrecord, WithAChangedMessageIsReadOrRefused) {
  const std::string framed = ExampleBuilder()
                                 .bytes("image", "abcd")
                                 .number("label", 1)
                                 .number("height", 2)
                                 .number("width", 2)
                                 .bytes("id", "x")
                                 .record();
  const std::string message = framed.substr(12, framed.size() - 16);
  const auto tryOne = [&](const std::string& changed) {
    try {
      const auto set = openFile(frameRecord(changed));
      Image image;
      set->read(0, {.channels = 1}, image);
      EXPECT_EQ(image.pixels.size(), image.shape.count());
      EXPECT_FALSE(set->nameOf(0).empty());
      EXPECT_LT(set->label(0), std::ssize(set->classNames()));
    } catch (const IoError&) {
    }
  };
  for (std::size_t size = 0; size < message.size(); ++size) tryOne(message.substr(0, size));
  for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
    std::string changed = message;
    changed[bit / 8] = static_cast<char>(static_cast<unsigned char>(changed[bit / 8]) ^ (1u << (bit % 8)));
    tryOne(changed);
  }
}

TEST_F(Tfrecord, ThatIsCompressedSaysWhatToDo) {
  EXPECT_MENTIONS(refusal<UsageError>(std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03 more", 15)), "gunzip");
  // A record of 0x088b1f bytes begins like that too.
  const std::string record = frameRecord(std::string(0x088b1f, 'x'));
  ASSERT_TRUE(record.starts_with("\x1f\x8b\x08"));
  EXPECT_MENTIONS(refusal(record), "record 0 is not a tf.train.Example");
}

TEST_F(Tfrecord, ThatCannotBeReadIsRefused) {
  EXPECT_THROW(openTfrecords(directory_ / "none", Split::Train), UsageError);
  EXPECT_THROW(openTfrecords(directory_.path(), Split::Train), UsageError);
  EXPECT_FALSE(isTfrecords(directory_ / "none"));
  EXPECT_FALSE(isTfrecords(directory_.path()));
}

// ---- places and splits

TEST_F(Tfrecord, AloneIsAllForTraining) {
  write("eval.tfrecord", cifarRecord(0, 5));
  const fs::path file = directory_ / "eval.tfrecord";
  EXPECT_TRUE(isTfrecords(file));
  EXPECT_EQ(openTfrecords(file, Split::Train)->label(0), 5);
  EXPECT_EQ(openTfrecords(file, Split::Validation), nullptr);
  EXPECT_EQ(openTfrecords(file, Split::Test), nullptr);
  write("notes.txt", "");
  EXPECT_FALSE(isTfrecords(directory_ / "notes.txt"));
}

TEST_F(Tfrecord, FilesTellTheirSplitByTheirNames) {
  write("train.tfrecords", cifarRecord(0, 0));
  write("training-b.tfrecord", cifarRecord(0, 1));
  write("other.tfrecord", cifarRecord(0, 2));
  write("validation.tfrecords", cifarRecord(0, 3));
  write("Val_1.tfrecord", cifarRecord(0, 4));
  write("dev.tfrecord", cifarRecord(0, 5));
  write("eval.tfrecords", cifarRecord(0, 6));
  write("test-a.tfrecord", cifarRecord(0, 7));
  write("train.tfrecords.tmp-1-0", "half of a file");
  write(".hidden.tfrecord", "not meant");
  write("labels.txt", "");
  EXPECT_TRUE(isTfrecords(directory_.path()));
  using Labels = std::vector<std::int32_t>;
  EXPECT_EQ(labels(Split::Train), (Labels{2, 0, 1}));  // other, train, training
  EXPECT_EQ(labels(Split::Validation), (Labels{4, 5, 3}));
  EXPECT_EQ(labels(Split::Test), (Labels{6, 7}));
}

TEST_F(Tfrecord, FilesOfNoKnownSplitAreForTraining) {
  write("b.tfrecord", cifarRecord(1, 1));
  write("a.tfrecords", cifarRecord(0, 0) + cifarRecord(2, 2));
  EXPECT_EQ(labels(Split::Train), (std::vector<std::int32_t>{0, 2, 1}));
  EXPECT_EQ(openTfrecords(directory_.path(), Split::Validation), nullptr);
  EXPECT_EQ(openTfrecords(directory_.path(), Split::Test), nullptr);
  const auto set = openTfrecords(directory_.path(), Split::Train);
  EXPECT_EQ(set->nameOf(1), "a.tfrecords:1");
  EXPECT_EQ(set->nameOf(2), "b.tfrecord:0");
  Image image;
  set->read(2, {}, image);
  EXPECT_EQ(image.pixels, cifarPixels(1));
}

TEST_F(Tfrecord, ShardsMustBeComplete) {
  write("train-00002-of-00003", cifarRecord(0, 2));
  write("train-00000-of-00003", cifarRecord(0, 0));
  write("test.tfrecord-00000-of-00001", cifarRecord(0, 9));
  const auto message = [&] { return errorOf<UsageError>([&] { labels(Split::Train); }); };
  EXPECT_MENTIONS(message(), "train-00001-of-00003 is not in " + directory_.path().string());
  EXPECT_EQ(labels(Split::Test), (std::vector<std::int32_t>{9}));
  write("train-00001-of-00003", "");  // a shard without records is one
  EXPECT_EQ(labels(Split::Train), (std::vector<std::int32_t>{0, 2}));
  fs::remove(directory_ / "train-00002-of-00003");
  EXPECT_MENTIONS(message(), "train-00002-of-00003");
  write("train-00002-of-00003.parquet", "");
  EXPECT_FALSE(isTfrecords(directory_ / "train-00002-of-00003.parquet"));
  EXPECT_MENTIONS(message(), "train-00002-of-00003");
}

TEST_F(Tfrecord, WithoutAnyRecordIsRefused) {
  write("train-00000-of-00002", "");
  write("train-00001-of-00002", "");
  EXPECT_THROW(labels(Split::Train), IoError);
}

// ---- writing

TEST_F(Tfrecord, WrittenIsReadAgain) {
  {
    TfrecordWriter unfinished(file_);
    unfinished.write(CifarPixels(cifarPixels(0)), 0);
  }
  EXPECT_FALSE(fs::exists(file_));
  // More than one buffer.
  TfrecordWriter writer(file_);
  for (int i = 0; i < 700; ++i) writer.write(CifarPixels(cifarPixels(i)), i % 13);
  writer.commit();
  const auto set = openTfrecords(file_, Split::Train);
  ASSERT_EQ(set->size(), 700);
  EXPECT_EQ(set->classNames().size(), 13u);
  Image image;
  for (int i = 0; i < 700; ++i) {
    set->read(i, {}, image);
    EXPECT_EQ(image.pixels, cifarPixels(i)) << i;
    EXPECT_EQ(set->label(i), i % 13);
  }
}

// The bytes that TensorFlow's classes give for these two features, in the order of their names.
TEST_F(Tfrecord, WrittenHasTheBytesOfAnExample) {
  TfrecordWriter writer(file_);
  writer.write(CifarPixels(cifarPixels(3)), 6);
  writer.commit();
  using namespace std::string_literals;
  const std::string image = "\x0a\x5image\x12\x86\x18\x0a\x83\x18\x0a\x80\x18"s + cifarText(3);
  const std::string label = "\x0a\x5label\x12\x5\x1a\x3\x0a\x1\x6"s;
  const std::string features = "\x0a\x90\x18"s + image + "\x0a\xe"s + label;
  EXPECT_EQ(readWholeFile(file_), frameRecord("\x0a\xa3\x18"s + features));
}

// A file that TensorFlow wrote.
TEST_F(Tfrecord, OfOtherProgramsAreRead) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  const auto set = openTfrecords(fs::path(vectors) / "tfx-cifar10_train.tfrecord", Split::Train);
  ASSERT_EQ(set->size(), 128);
  EXPECT_EQ(set->shape(), kCifarShape);
  EXPECT_EQ(set->classNames().size(), 10u);
  EXPECT_EQ(set->nameOf(0), "train_16399");
  EXPECT_EQ(set->label(0), 7);
  EXPECT_EQ(set->label(1), 8);
  EXPECT_EQ(set->label(2), 4);
  std::set<std::string> different;
  Image image;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    set->read(i, {}, image);
    EXPECT_EQ(image.shape, kCifarShape);
    different.insert(textOf(image.pixels));
  }
  EXPECT_EQ(different.size(), 128u);
}

TEST_F(Tfrecord, OfJpegImagesIsDecoded) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  std::string records;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(vectors) / "flowers" / "daisy")) {
    if (entry.path().extension() != ".jpg" || count == 5) continue;
    records += ExampleBuilder()
                   .bytes("image/encoded", readWholeFile(entry.path()))
                   .number("image/class/label", count++)
                   .record();
  }
  ASSERT_EQ(count, 5);
  const auto set = openFile(records);
  EXPECT_EQ(set->shape().channels, 3);
  EXPECT_EQ(set->classNames().size(), 5u);
  Image image;
  for (int i = 0; i < count; ++i) {
    set->read(i, {.channels = 3, .height = 16, .width = 16}, image);
    EXPECT_GE(image.shape.height, 16);
    EXPECT_GE(image.shape.width, 16);
    EXPECT_EQ(image.pixels.size(), image.shape.count());
  }
}

}  // namespace
}  // namespace cohort
