#include "data/packed_file.h"

#include <cerrno>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kHashAt = 32;
constexpr std::size_t kSplitBytes = 24;
constexpr std::size_t kRecordBytes = 32;
constexpr std::size_t kRecordsAt = 16 + kSplits.size() * kSplitBytes;  // in the index

constexpr std::uint32_t kOrderedByClass = 1;
constexpr std::uint32_t kPixelsOnly = 2;

using Bytes = std::span<const std::byte>;

void append(std::string& out, std::uint64_t value, int bits) {
  for (int shift = 0; shift < bits; shift += 8) out += static_cast<char>(value >> shift);
}

std::uint64_t numberAt(Bytes bytes, std::size_t at, int bits) {
  std::uint64_t value = 0;
  for (int shift = bits - 8; shift >= 0; shift -= 8) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + static_cast<std::size_t>(shift / 8)]);
  }
  return value;
}

std::string_view textOf(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t hashOfImage(std::string_view image) {
  return hashName(image);
}

}  // namespace

// ---- writing

PackedFileWriter::PackedFileWriter(const fs::path& path, std::vector<std::string> classNames)
    : file_(path), classNames_(std::move(classNames)), offset_(kHeaderBytes) {
  for (const std::string& name : classNames_) text_ += name;
  file_.write(std::string(kHeaderBytes, '\0'));
}

void PackedFileWriter::beginSplit(const PackedSplit& split) {
  splits_.push_back(split);
  splits_.back().images = 0;
}

void PackedFileWriter::add(std::string_view image, std::int32_t label, std::string_view name) {
  if (image.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw IoError(fmt::format("{} has {} bytes, more than an image can have; remove or replace it.", name,
                              image.size()));
  }
  ++splits_.back().images;
  text_ += name;
  append(records_, offset_, 64);
  append(records_, hashOfImage(image), 64);
  append(records_, image.size(), 32);
  append(records_, static_cast<std::uint32_t>(label), 32);
  append(records_, text_.size(), 64);
  file_.write(image);
  offset_ += image.size();
}

void PackedFileWriter::finish() {
  COHORT_CHECK(splits_.size() == kSplits.size(), "each split begins once");
  const std::string index = makeIndex();
  file_.write(index);
  std::string header(kPackedMagic);
  append(header, kVersion, 32);
  append(header, 0, 32);
  append(header, offset_, 64);
  append(header, index.size(), 64);
  header += hashBytes(std::as_bytes(std::span(index)));
  COHORT_CHECK(header.size() == kHeaderBytes, "the header's size");
  file_.writeAt(0, std::as_bytes(std::span(header)));
  file_.commit();
}

std::string PackedFileWriter::makeIndex() const {
  std::string index;
  append(index, classNames_.size(), 64);
  append(index, text_.size(), 64);
  for (const PackedSplit& split : splits_) {
    append(index, split.images, 64);
    append(index, (split.orderedByClass ? kOrderedByClass : 0) | (split.pixelsOnly ? kPixelsOnly : 0), 32);
    append(index, static_cast<std::uint32_t>(split.shape.channels), 32);
    append(index, static_cast<std::uint32_t>(split.shape.height), 32);
    append(index, static_cast<std::uint32_t>(split.shape.width), 32);
  }
  index += records_;
  std::uint64_t end = 0;
  for (const std::string& name : classNames_) append(index, end += name.size(), 64);
  return index + text_;
}

// ---- reading

PackedFile::PackedFile(const fs::path& path) : path_(path.string()), file_(path) {
  file_.readAhead();
  findIndex();
  readSplits();
  readCounts();
  readClassNames();
  checkRecords();
}

void PackedFile::refuse(std::string_view why) const {
  throw IoError(fmt::format("{} is damaged: {}; copy or pack it again.", path_, why));
}

void PackedFile::findIndex() {
  const Bytes all = file_.bytes();
  if (!textOf(all).starts_with(kPackedMagic)) {
    throw IoError(fmt::format("{} is not a file of packed images.", path_));
  }
  if (all.size() < kHeaderBytes) refuse("it ends inside its header");
  const std::uint64_t version = numberAt(all, kPackedMagic.size(), 32);
  if (version != kVersion) {
    throw IoError(
        fmt::format("{} has version {} of its format, but this program reads version {}; pack it again.",
                    path_, version, kVersion));
  }
  if (numberAt(all, 12, 32) != 0) refuse("its header is not the one that was written");
  indexOffset_ = numberAt(all, 16, 64);
  if (indexOffset_ < kHeaderBytes || indexOffset_ > all.size() ||
      numberAt(all, 24, 64) != all.size() - indexOffset_) {
    refuse(fmt::format("it has {} bytes, which is not what its header announces", all.size()));
  }
  index_ = all.subspan(indexOffset_);
  if (textOf(all.subspan(kHashAt, kHeaderBytes - kHashAt)) != hashBytes(index_)) {
    refuse("its index is not the one that was written");
  }
}

// From here on the hash is not trusted: a file may be made on purpose.
void PackedFile::readSplits() {
  if (index_.size() < kRecordsAt) refuse("its index is too short");
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    const Bytes at = index_.subspan(16 + i * kSplitBytes, kSplitBytes);
    const auto side = [&](std::size_t place) { return static_cast<int>(numberAt(at, place, 32)); };
    const std::uint64_t flags = numberAt(at, 8, 32);
    splits_[i] = {.images = numberAt(at, 0, 64),
                  .orderedByClass = (flags & kOrderedByClass) != 0,
                  .pixelsOnly = (flags & kPixelsOnly) != 0,
                  .shape = {.channels = side(12), .height = side(16), .width = side(20)}};
    const auto& [images, ordered, pixels, shape] = splits_[i];
    if (images > index_.size() / kRecordBytes) refuse("its index announces more images than it has");
    if (images > 0 && ((shape.channels != 1 && shape.channels != 3) || shape.height < 0 || shape.width < 0)) {
      refuse("its index has images of an impossible shape");
    }
    images_ += images;
  }
}

void PackedFile::readCounts() {
  const std::uint64_t classes = numberAt(index_, 0, 64);
  const std::uint64_t textBytes = numberAt(index_, 8, 64);
  const std::uint64_t room = index_.size() - kRecordsAt;
  if (classes == 0 || classes > room / 8 || textBytes > room ||
      images_ * kRecordBytes + classes * 8 + textBytes != room) {
    refuse("the parts of its index do not add up");
  }
  classNames_.resize(classes);
  text_ = textOf(index_.last(textBytes));
}

void PackedFile::readClassNames() {
  const Bytes ends = index_.subspan(kRecordsAt + images_ * kRecordBytes, classNames_.size() * 8);
  for (std::size_t label = 0; label < classNames_.size(); ++label) {
    const std::uint64_t end = numberAt(ends, label * 8, 64);
    if (end < imageText_ || end > text_.size())
      refuse(fmt::format("its index is wrong about class {}", label));
    classNames_[label] = text_.substr(imageText_, end - imageText_);
    imageText_ = end;
  }
}

void PackedFile::checkRecords() const {
  std::uint64_t nameBegin = imageText_;
  for (std::uint64_t i = 0; i < images_; ++i) {
    const Record found = record(i);
    const bool inside = found.offset >= kHeaderBytes && found.offset <= indexOffset_ &&
                        found.bytes <= indexOffset_ - found.offset;
    if (!inside || found.label >= classNames_.size() || found.nameEnd < nameBegin ||
        found.nameEnd > text_.size()) {
      refuse(fmt::format("its index is wrong about image {}", i));
    }
    nameBegin = found.nameEnd;
  }
}

PackedFile::Record PackedFile::record(std::uint64_t image) const {
  const Bytes at = index_.subspan(kRecordsAt + image * kRecordBytes, kRecordBytes);
  return {.offset = numberAt(at, 0, 64),
          .hash = numberAt(at, 8, 64),
          .bytes = static_cast<std::uint32_t>(numberAt(at, 16, 32)),
          .label = static_cast<std::uint32_t>(numberAt(at, 20, 32)),
          .nameEnd = numberAt(at, 24, 64)};
}

std::uint64_t PackedFile::first(Split split) const {
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(split); ++i) before += splits_[i].images;
  return before;
}

std::string_view PackedFile::name(std::uint64_t image) const {
  const std::uint64_t begin = image == 0 ? imageText_ : record(image - 1).nameEnd;
  return text_.substr(begin, record(image).nameEnd - begin);
}

Bytes PackedFile::image(std::uint64_t image) const {
  const Record found = record(image);
  const Bytes bytes = file_.bytes().subspan(found.offset, found.bytes);
  if (hashOfImage(textOf(bytes)) != found.hash) {
    refuse(fmt::format("its image {} is not the one that was packed", name(image)));
  }
  return bytes;
}

}  // namespace cohort
