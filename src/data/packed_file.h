// The file of packed images itself: writing it, and reading it with every offset checked. Private to data.
//
// Numbers are stored least significant byte first.
//
//   file      := header image* index
//   header    := magic version:32 zero:32 indexOffset:64 indexBytes:64 indexHash     64 bytes
//   magic     := "COHIMG\r\n"
//   indexHash := 32 hexadecimal digits, hashBytes (base/hash.h) of the index
//   image     := a JPEG or PNG file
//   index     := classes:64 textBytes:64 split{3} record* classEnd{classes} text
//   split     := images:64 flags:32 channels:32 height:32 width:32                   training, validation, test
//   flags     := 1 where the images are ordered by class, plus 2 where the set had pixels and no files
//   record    := offset:64 hash:64 bytes:32 label:32 nameEnd:64                      split by split
//   classEnd  := 64 bits
//   text      := the names of the classes, then those of the images
//
// `hash` is the 64-bit XXH3 of the image. A name ends in the text where its End says and begins where the one before ends.
// The index ends the file.
//
// A PackedFile never changes: any number of threads may read from it. A PackedFileWriter is used by one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "data/image_set.h"
#include "data/mapped_file.h"

namespace cohort {

inline constexpr std::string_view kPackedMagic = "COHIMG\r\n";
inline constexpr std::array kSplits{Split::Train, Split::Validation, Split::Test};

struct PackedSplit {
  std::uint64_t images = 0;
  bool orderedByClass = false;
  bool pixelsOnly = false;  // the set that was packed had pixels and no files
  SampleShape shape{};      // as ImageSet::shape says
};

class PackedFileWriter {
 public:
  PackedFileWriter(const std::filesystem::path& path, std::vector<std::string> classNames);

  // The three splits in their order, each before its images.
  void beginSplit(const PackedSplit& split);
  void add(std::string_view image, std::int32_t label, std::string_view name);
  // Only now is there a file.
  void finish();

 private:
  std::string makeIndex() const;

  AtomicFile file_;
  std::vector<std::string> classNames_;
  std::vector<PackedSplit> splits_;
  std::string records_;
  std::string text_;
  std::uint64_t offset_;  // of the next image
};

// A packed file whose header and index have been checked; IoError where they are damaged. Images are counted over all
// splits.
class PackedFile {
 public:
  explicit PackedFile(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& classNames() const { return classNames_; }
  const PackedSplit& split(Split split) const { return splits_[static_cast<std::size_t>(split)]; }
  std::uint64_t images() const { return images_; }
  // The split's first image.
  std::uint64_t first(Split split) const;

  std::int32_t label(std::uint64_t image) const { return static_cast<std::int32_t>(record(image).label); }
  std::string_view name(std::uint64_t image) const;
  // IoError where the image is not the one that was packed.
  std::span<const std::byte> image(std::uint64_t image) const;

 private:
  struct Record {
    std::uint64_t offset = 0;
    std::uint64_t hash = 0;
    std::uint32_t bytes = 0;
    std::uint32_t label = 0;
    std::uint64_t nameEnd = 0;
  };

  [[noreturn]] void refuse(std::string_view why) const;
  void findIndex();
  void readSplits();
  void readCounts();
  void readClassNames();
  void checkRecords() const;
  Record record(std::uint64_t image) const;

  std::string path_;
  MappedFile file_;
  std::span<const std::byte> index_;
  std::uint64_t indexOffset_ = 0;
  std::array<PackedSplit, kSplits.size()> splits_{};
  std::uint64_t images_ = 0;
  std::vector<std::string> classNames_;
  std::string_view text_;
  std::uint64_t imageText_ = 0;  // where the images' names begin in the text
};

}  // namespace cohort
