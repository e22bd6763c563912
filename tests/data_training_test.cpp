// Whole runs on images in files: what is computed depends on the images and the settings, not on threads, stops, or the
// kind of file that the images are in.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "data/convert.h"
#include "data/image_folder.h"
#include "data/packed_images.h"
#include "data/test_cifar.h"
#include "data/tfrecord.h"
#include "tests/image_runs.h"
#include "train/config_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

void expectSameResult(const RunSummary& run, const RunSummary& other, const std::string& what) {
  EXPECT_EQ(run.weightsHash, other.weightsHash) << what;
  EXPECT_EQ(run.step, other.step) << what;
  EXPECT_EQ(run.loss, other.loss) << what;
  ASSERT_TRUE(run.evaluation && other.evaluation) << what;
  EXPECT_EQ(run.evaluation->samples, other.evaluation->samples) << what;
  EXPECT_EQ(run.evaluation->loss, other.evaluation->loss) << what;
}

class ImageTraining : public testing::TestWithParam<std::string> {
 protected:
  ImageTraining() {
    writeImageFolder(images_);
    calm_ = train(scratch_ / "calm", settings_);
  }

  TestDirectory scratch_;
  fs::path images_ = scratch_ / "images";
  GivenSettings settings_ = imageSettings(GetParam(), images_);
  RunSummary calm_;
};
// Grey images and dropout; coloured ones and batch norm.
INSTANTIATE_TEST_SUITE_P(Networks, ImageTraining, testing::Values("mnist-cnn", "resnet8"),
                         [](const auto& instance) {
                           return instance.param == "resnet8" ? "batchNorm" : "dropout";
                         });

TEST_P(ImageTraining, GivesTheSameBitsForEveryNumberOfThreads) {
  for (const char* threads : {"1", "2", "3"}) {
    for (const char* dataThreads : {"0", "1", "3"}) {
      const std::string name = std::string(threads) + "+" + dataThreads;
      const RunSummary run =
          train(scratch_ / name, with(settings_, {{"threads", {threads}}, {"data-threads", {dataThreads}}}));
      expectSameResult(run, calm_, name);
    }
  }
}

TEST_P(ImageTraining, StoppedAndResumedGivesTheSameBits) {
  for (const Step step : {1, 4}) {
    const fs::path job = scratch_ / std::to_string(step);
    Recorder stopper(step);
    const RunSummary stopped = train(job, with(settings_, {{"data-threads", {"3"}}}), stopper);
    EXPECT_TRUE(stopped.interrupted);
    EXPECT_NE(stopped.weightsHash, calm_.weightsHash);
    const RunSummary resumed = train(job, {{"threads", {"3"}}, {"data-threads", {"1"}}});
    EXPECT_EQ(resumed.startStep, step);
    EXPECT_EQ(resumed.weightsHash, calm_.weightsHash);
    EXPECT_EQ(resumed.evaluation->loss, calm_.evaluation->loss);
  }
}

TEST_P(ImageTraining, APackedFileGivesTheSameBitsAsItsFolder) {
  const fs::path packed = scratch_ / "packed";
  packImages([&](Split split) { return openImageFolder(images_, split); }, packed);
  fs::remove_all(images_);
  expectSameResult(train(scratch_ / "job", with(settings_, {{"data-dir", {packed}}})), calm_, "packed");
}

TEST_P(ImageTraining, TheJobDirectorysConfigurationRepeatsTheRun) {
  const fs::path config = scratch_ / "calm" / "config.yaml";
  const RunSummary again = train(scratch_ / "again", readConfigFile(config));
  expectSameResult(again, calm_, "again");
  EXPECT_EQ(storedConfig(scratch_ / "again"), storedConfig(scratch_ / "calm"));
}

TEST_P(ImageTraining, SeedsTransformsOrderAndImagesAllDecideTheBits) {
  const std::vector<GivenSettings> changes = {
      {{"seed", {"2"}}},
      {{"transforms", {"resize:18,random-crop:16"}}},
      {{"transforms", {"resize:18,center-crop:16,flip"}}},
      {{"transforms", {"resize:19,random-crop:16,flip"}}},
      {{"normalize", {"0.5/0.25"}}},
      {{"shuffle", {"false"}}},
      {{"randomness", {"false"}}},
      {{"validation-split", {"3"}}},
  };
  std::vector<std::string> hashes = {calm_.weightsHash};
  for (const GivenSettings& change : changes) {
    const auto& [name, values] = *change.begin();
    hashes.push_back(train(scratch_ / std::to_string(hashes.size()), with(settings_, change)).weightsHash);
    for (std::size_t i = 0; i + 1 < hashes.size(); ++i) {
      EXPECT_NE(hashes[i], hashes.back()) << name << " " << values[0] << " is the same as run " << i;
    }
  }
  writeTestFile(images_ / "train" / "a" / "image0.jpg", jpegOf(smoothImage({3, 20, 20}, 77)));
  EXPECT_NE(train(scratch_ / "other", settings_).weightsHash, calm_.weightsHash);
}

class CifarTraining : public testing::Test {
 protected:
  CifarTraining() {
    fs::create_directory(binary_);
    writeCifar10(binary_, 16, 20);
  }

  // 72 of the 80 training images are left: as many as `cohort data convert` leaves.
  RunSummary trainFrom(const fs::path& data, const std::string& job, const GivenSettings& more) {
    return train(scratch_ / job, with({{"network", {"resnet8"}},
                                       {"dataset", {"cifar10"}},
                                       {"data-dir", {data}},
                                       {"batch-size", {"12"}},
                                       {"grains", {"6"}},
                                       {"train-steps", {"7"}},
                                       {"eval-on", {"validation"}},
                                       {"threads", {"2"}}},
                                      more));
  }

  TestDirectory scratch_;
  fs::path binary_ = scratch_ / "binary";
};

TEST_F(CifarTraining, ConvertedAndPackedFilesGiveTheSameBits) {
  const fs::path records = scratch_ / "records";
  const fs::path packed = scratch_ / "packed";
  convertDataset(binary_, records, ConvertTarget::Tfrecord);
  packImages([&](Split split) { return openCifar10(binary_, split); }, packed);
  std::string before;
  for (const std::string normalize : {"dataset", "measured", "mean-image"}) {
    const GivenSettings files{{"normalize", {normalize}}};
    const GivenSettings cut = with(files, {{"validation-split", {"8"}}});
    const RunSummary fromBinary = trainFrom(binary_, normalize + "-binary", cut);
    ASSERT_TRUE(fromBinary.evaluation.has_value());
    EXPECT_EQ(fromBinary.evaluation->samples, 8);
    EXPECT_NE(fromBinary.weightsHash, before) << normalize;
    before = fromBinary.weightsHash;
    expectSameResult(trainFrom(records, normalize + "-records", files), fromBinary, normalize + ", records");
    expectSameResult(trainFrom(packed, normalize + "-packed", cut), fromBinary, normalize + ", packed");

    const LossSum test = evaluate(scratch_ / (normalize + "-binary"), 2).sums;
    EXPECT_EQ(test.samples, 20);
    EXPECT_EQ(evaluate(scratch_ / (normalize + "-records"), 1).sums.loss, test.loss) << normalize;
    EXPECT_EQ(evaluate(scratch_ / (normalize + "-packed"), 1).sums.loss, test.loss) << normalize;
  }
  // All 80 images are another training set.
  EXPECT_NE(trainFrom(binary_, "whole", {{"normalize", {"mean-image"}}, {"eval-on", {"test"}}}).weightsHash,
            before);
}

class Classes : public testing::Test {
 protected:
  // What is said where the run is refused.
  std::string refusal(const GivenSettings& given) {
    try {
      train(scratch_ / "refused", given);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }

  TestDirectory scratch_;
  fs::path images_ = scratch_ / "images";
};

TEST_F(Classes, ThatTheImagesDoNotHaveAreRefused) {
  writeImageFolder(images_);
  const GivenSettings settings = with(imageSettings("mnist-cnn", images_), {{"train-steps", {"2"}}});
  for (const std::string classes : {"1", "2", "4", "10", "1000"}) {
    EXPECT_EQ(refusal(with(settings, {{"classes", {classes}}})),
              "folder has 3 classes, but " + classes + " are asked for; give --classes 3, or leave it out");
  }
  const RunSummary open = train(scratch_ / "open", settings);
  const RunSummary given = train(scratch_ / "given", with(settings, {{"classes", {"3"}}}));
  expectSameResult(given, open, "the images' own number");
  EXPECT_EQ(storedConfig(scratch_ / "given"), storedConfig(scratch_ / "open"));
  EXPECT_EQ(train(scratch_ / "open", {{"train-steps", {"3"}}}).startStep, 2);

  // A job directory whose images have become others.
  fs::create_directories(images_ / "train" / "d");
  fs::create_directories(images_ / "test" / "d");
  for (const char* split : {"train", "test"}) {
    fs::copy(images_ / "train" / "a" / "image0.jpg", images_ / split / "d");
  }
  EXPECT_THROW(train(scratch_ / "open", {{"train-steps", {"4"}}}), UsageError);
  EXPECT_THROW(evaluate(scratch_ / "open", 1), UsageError);
}

// A record's label is all that says how many classes there are.
TEST_F(Classes, AreTheTrainingImagesWhereATestSetHasFewer) {
  fs::create_directory(images_);
  for (const auto& [name, classes] : {std::pair("train", 13), std::pair("test", 11)}) {
    TfrecordWriter writer(images_ / (std::string(name) + ".tfrecords"));
    for (int i = 0; i < 2 * classes; ++i) {
      writer.write(CifarPixels(cifarPixels(i)), i % classes);
    }
    writer.commit();
  }
  const RunSummary run = train(scratch_ / "job", {{"network", {"resnet8"}},
                                                  {"dataset", {"folder"}},
                                                  {"data-dir", {images_}},
                                                  {"batch-size", {"8"}},
                                                  {"grains", {"4"}},
                                                  {"train-steps", {"2"}}});
  EXPECT_EQ(run.evaluation->samples, 22);
  EXPECT_EQ(evaluate(scratch_ / "job", 1).sums.loss, run.evaluation->loss);
}

}  // namespace
}  // namespace cohort
