#include "data/tfrecord.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "base/error.h"
#include "base/record_file.h"
#include "data/codec_parts.h"
#include "data/example.pb.h"
#include "data/mapped_file.h"
#include "data/tfrecord_files.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

using FeatureMap = google::protobuf::Map<std::string, proto::Feature>;
using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 3> kImage = {"image", "image/encoded", "image_raw"};
constexpr std::array<std::string_view, 2> kLabel = {"label", "image/class/label"};
constexpr std::array<std::string_view, 2> kHeight = {"image/height", "height"};
constexpr std::array<std::string_view, 2> kWidth = {"image/width", "width"};
constexpr std::array<std::string_view, 2> kDepth = {"depth", "image/channels"};
constexpr std::array<std::string_view, 2> kName = {"image/filename", "id"};
constexpr std::array<std::string_view, 1> kClassText = {"image/class/text"};

// A label above this is rather a mistake: every class up to the highest costs memory.
constexpr std::int64_t kHighestLabel = (std::int64_t{1} << 20) - 1;
constexpr std::int64_t kLongestSide = std::int64_t{1} << 15;
constexpr std::size_t kLongestName = 255;

std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// ---- one record

enum class Coding : std::uint8_t { Compressed, Planar, Interleaved };

// A part of a file.
struct Place {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

struct Entry {
  Place image;
  Place name;  // no bytes: it has none
  std::uint32_t file = 0;
  std::int32_t label = 0;
  SampleShape shape;  // as stored
  Coding coding = Coding::Compressed;
};

// Reads the features of one record; all that is wrong is an IoError that begins with `where`.
class ExampleReader {
 public:
  ExampleReader(std::string_view record, std::string where) : where_(std::move(where)) {
    if (record.size() > std::size_t{std::numeric_limits<int>::max()} ||
        !example_.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
      refuse("is not a tf.train.Example");
    }
  }

  [[noreturn]] void refuse(std::string_view why) const { throw IoError(fmt::format("{} {}.", where_, why)); }
  const std::string& where() const { return where_; }

  const std::string& imageBytes() const {
    const auto [name, feature] = require(kImage, "image");
    if (feature->bytes_list().value_size() != 1 || feature->bytes_list().value(0).empty()) {
      refuse(fmt::format("has a feature '{}' that is not one image's bytes", name));
    }
    return feature->bytes_list().value(0);
  }

  std::int32_t label() const {
    const auto [name, feature] = require(kLabel, "label");
    const std::optional<std::int64_t> value = wholeNumber(*feature);
    if (!value) refuse(fmt::format("has a feature '{}' that is not one whole number", name));
    if (*value < 0 || *value > kHighestLabel) {
      refuse(fmt::format("has the label {}, but labels go from 0 to at most {}", *value, kHighestLabel));
    }
    return static_cast<std::int32_t>(*value);
  }

  // Nothing where it is missing.
  std::optional<std::int64_t> extent(Names names) const {
    const auto [name, feature] = find(names);
    if (feature == nullptr) return std::nullopt;
    const std::optional<std::int64_t> value = wholeNumber(*feature);
    if (!value || *value < 1 || *value > kLongestSide) {
      refuse(fmt::format("has a feature '{}' that is not a number from 1 to {}", name, kLongestSide));
    }
    return value;
  }

  // Nothing where it is missing, or is not what one would print.
  std::string_view text(Names names) const {
    const auto [name, feature] = find(names);
    if (feature == nullptr || feature->bytes_list().value_size() != 1) return {};
    const std::string_view value = feature->bytes_list().value(0);
    const auto isControl = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (value.size() > kLongestName || std::ranges::any_of(value, isControl)) return {};
    return value;
  }

 private:
  using Found = std::pair<std::string_view, const proto::Feature*>;

  Found find(Names names) const {
    const FeatureMap& features = example_.features().feature();
    for (const std::string_view name : names) {
      const auto found = features.find(std::string(name));
      if (found != features.end()) return {name, &found->second};
    }
    return {{}, nullptr};
  }

  Found require(Names names, std::string_view what) const {
    const Found found = find(names);
    if (found.second == nullptr) {
      refuse(fmt::format("has no {} (a feature '{}')", what, fmt::join(names, "' or '")));
    }
    return found;
  }

  static std::optional<std::int64_t> wholeNumber(const proto::Feature& feature) {
    if (feature.int64_list().value_size() == 1) return feature.int64_list().value(0);
    if (feature.float_list().value_size() != 1) return std::nullopt;
    const float value = feature.float_list().value(0);
    // Beyond 2^24, floats do not have all whole numbers any more.
    if (!(std::abs(value) <= 0x1p24f) || value != std::trunc(value)) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }

  proto::Example example_;
  std::string where_;
};

// The shape of `image`, and how it is stored.
std::pair<SampleShape, Coding> shapeOf(const ExampleReader& reader, std::string_view image) {
  if (isJpeg(bytesOf(image)) || isPng(bytesOf(image))) {
    const SampleShape shape = encodedShape(bytesOf(image), reader.where());
    return {{.channels = shape.channels == 1 ? 1 : 3, .height = shape.height, .width = shape.width},
            Coding::Compressed};
  }
  const auto bytes = static_cast<std::int64_t>(image.size());
  const std::optional<std::int64_t> height = reader.extent(kHeight);
  const std::optional<std::int64_t> width = reader.extent(kWidth);
  if (!height && !width && image.size() == kCifarPixelBytes) return {kCifarShape, Coding::Planar};
  if (!height || !width) {
    reader.refuse(fmt::format(
        "has an image of {} bytes that is neither JPEG nor PNG nor CIFAR's {}, and no height and width",
        image.size(), kCifarPixelBytes));
  }
  const std::int64_t depth = reader.extent(kDepth).value_or(bytes / (*height * *width));
  if ((depth != 1 && depth != 3) || *height * *width * depth != bytes) {
    reader.refuse(
        fmt::format("has an image of {} bytes, which is not what {}x{} pixels of 1 or 3 channels{} need",
                    bytes, *height, *width, reader.extent(kDepth) ? fmt::format(" (here: {})", depth) : ""));
  }
  return {{.channels = static_cast<int>(depth),
           .height = static_cast<int>(*height),
           .width = static_cast<int>(*width)},
          Coding::Interleaved};
}

// ---- pixels

// [pixels, channels] -> [channels, pixels]
void separate(std::string_view from, std::size_t channels, std::vector<std::uint8_t>& to) {
  const std::size_t pixels = from.size() / channels;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    std::uint8_t* const out = to.data() + channel * pixels;
    for (std::size_t i = 0; i < pixels; ++i) out[i] = static_cast<std::uint8_t>(from[i * channels + channel]);
  }
}

// Grey to three equal channels, or colour to its brightness, as the decoders do it.
void changeChannels(Image& image, int channels) {
  const std::size_t pixels = image.pixels.size() / static_cast<std::size_t>(image.shape.channels);
  if (channels == 1) {
    for (std::size_t i = 0; i < pixels; ++i) {
      image.pixels[i] = luma(image.pixels[i], image.pixels[pixels + i], image.pixels[2 * pixels + i]);
    }
  }
  image.reshape({.channels = channels, .height = image.shape.height, .width = image.shape.width});
  if (channels == 3) {
    std::copy_n(image.pixels.data(), pixels, image.pixels.data() + pixels);
    std::copy_n(image.pixels.data(), pixels, image.pixels.data() + 2 * pixels);
  }
}

// ---- many records

class TfrecordSet final : public ImageSet {
 public:
  explicit TfrecordSet(const std::vector<fs::path>& paths) {
    for (const fs::path& path : paths) addFile(path);
    if (entries_.empty()) {
      throw IoError(fmt::format("There is no record in {}{}.", paths.front().string(),
                                paths.size() > 1 ? " and the other files of its split" : ""));
    }
    for (std::size_t label = 0; label < classNames_.size(); ++label) {
      if (classNames_[label].empty()) classNames_[label] = std::to_string(label);
    }
  }

  std::int64_t size() const override { return std::ssize(entries_); }
  SampleShape shape() const override { return shape_; }
  const std::vector<std::string>& classNames() const override { return classNames_; }
  std::int32_t label(std::int64_t index) const override { return entry(index).label; }

  std::string nameOf(std::int64_t index) const override {
    const Entry& found = entry(index);
    if (found.name.bytes > 0) return std::string(part(found, found.name));
    const File& file = files_[found.file];
    return fmt::format("{}:{}", file.path.filename().string(), index - file.first);
  }

  void read(std::int64_t index, const ImageRequest& request, Image& image) const override {
    const Entry& found = entry(index);
    const std::string_view bytes = part(found, found.image);
    if (found.coding == Coding::Compressed) {
      // Kept, so that reading allocates nothing: the name is needed only where the image is damaged.
      thread_local std::string name;
      const File& file = files_[found.file];
      name.clear();
      fmt::format_to(std::back_inserter(name), "{}: record {}", file.path.native(), index - file.first);
      decodeImage(bytesOf(bytes), name, request, image);
      return;
    }
    image.reshape(found.shape);
    if (found.coding == Coding::Planar) {
      std::ranges::copy(bytes, image.pixels.begin());
    } else {
      separate(bytes, static_cast<std::size_t>(found.shape.channels), image.pixels);
    }
    if (request.channels != found.shape.channels) changeChannels(image, request.channels);
  }

  bool encoded(std::int64_t index, std::string& bytes) const override {
    if (!hasFiles_ && shape_.height != 0) return false;
    const Entry& found = entry(index);
    if (found.coding == Coding::Compressed) {
      bytes.assign(part(found, found.image));
      return true;
    }
    // One kind of file for all: whoever reads it gets what `read` gives here, whatever channels are asked for.
    Image pixels;
    read(index, {.channels = found.shape.channels}, pixels);
    bytes = encodePng(pixels);
    return true;
  }

 private:
  struct File {
    fs::path path;
    MappedFile mapped;
    std::int64_t first = 0;  // the index of its first image
  };

  const Entry& entry(std::int64_t index) const {
    COHORT_CHECK(index >= 0 && index < size(), "no such image");
    return entries_[static_cast<std::size_t>(index)];
  }

  std::string_view part(const Entry& of, const Place& place) const {
    return files_[of.file].mapped.contents().substr(place.offset, place.bytes);
  }

  void addFile(const fs::path& path) {
    files_.push_back({.path = path, .mapped = MappedFile(path), .first = size()});
    const std::string_view contents = files_.back().mapped.contents();
    requireNotCompressed(path, contents);
    RecordReader records(contents, path.string());
    while (const auto record = records.next()) {
      addRecord(*record, static_cast<std::uint64_t>(record->data() - contents.data()));
    }
  }

  void addRecord(std::string_view record, std::uint64_t offset) {
    const File& file = files_.back();
    const ExampleReader reader(record, fmt::format("{}: record {}", file.path.string(), size() - file.first));
    // The parser gives copies. Any place in the record with equal bytes will do to read them again.
    const auto placeOf = [&](std::string_view bytes) {
      const std::size_t at = record.find(bytes);
      COHORT_CHECK(at != std::string_view::npos, "a feature is not in its record");
      return Place{.offset = offset + at, .bytes = static_cast<std::uint32_t>(bytes.size())};
    };
    const std::string& image = reader.imageBytes();
    const auto [shape, coding] = shapeOf(reader, image);
    const std::int32_t label = reader.label();
    const std::string_view name = reader.text(kName);
    addShape(shape);
    hasFiles_ |= coding == Coding::Compressed;
    addClass(label, reader.text(kClassText), coding == Coding::Planar ? std::size_t{10} : std::size_t{0});
    entries_.push_back({.image = placeOf(image),
                        .name = name.empty() ? Place{} : placeOf(name),
                        .file = static_cast<std::uint32_t>(files_.size() - 1),
                        .label = label,
                        .shape = shape,
                        .coding = coding});
  }

  // Called before the entry is there.
  void addShape(SampleShape shape) {
    if (entries_.empty()) {
      shape_ = shape;
      return;
    }
    shape_.channels = std::max(shape_.channels, shape.channels);
    if (shape_.height != shape.height || shape_.width != shape.width) shape_.height = shape_.width = 0;
  }

  void addClass(std::int32_t label, std::string_view name, std::size_t atLeast) {
    const auto at = static_cast<std::size_t>(label);
    classNames_.resize(std::max({classNames_.size(), at + 1, atLeast}));
    if (classNames_[at].empty()) classNames_[at] = name;
  }

  std::vector<File> files_;
  std::vector<Entry> entries_;
  SampleShape shape_;
  bool hasFiles_ = false;                // a record has a JPEG or PNG
  std::vector<std::string> classNames_;  // empty while a class has no name yet
};

// So much is collected before it is written.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// The same bytes every time: the features are written in the order of their names.
std::string serialized(const proto::Example& example) {
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    COHORT_CHECK(example.SerializeToCodedStream(&coded), "an example cannot be serialised");
  }
  return out;
}

}  // namespace

std::unique_ptr<ImageSet> openTfrecords(const fs::path& place, Split split) {
  const std::vector<fs::path> paths = tfrecordFiles(place, split);
  if (paths.empty()) return nullptr;
  return std::make_unique<TfrecordSet>(paths);
}

TfrecordWriter::TfrecordWriter(const fs::path& path) : file_(path) {}

void TfrecordWriter::write(CifarPixels pixels, std::int32_t label) {
  COHORT_CHECK(label >= 0, "labels are not negative");
  proto::Example example;
  FeatureMap& features = *example.mutable_features()->mutable_feature();
  features["image"].mutable_bytes_list()->add_value()->assign(pixels.begin(), pixels.end());
  features["label"].mutable_int64_list()->add_value(label);
  appendRecord(buffer_, serialized(example));
  if (buffer_.size() < kBufferBytes) return;
  file_.write(buffer_);
  buffer_.clear();
}

void TfrecordWriter::commit() {
  file_.write(buffer_);
  buffer_.clear();
  file_.commit();
}

}  // namespace cohort
