#include "train/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/file_part.h"

namespace cohort {
namespace {

static_assert(std::endian::native == std::endian::little, "payloads are copied as they lie in memory");

using nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kAlignment = 8;
// A header of more is an error of the file, not a network.
constexpr std::uint64_t kLargestHeader = 100'000'000;

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 17> kElementBytes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E5M2", 1},
    {"F8_E4M3", 1},
    {"F8_E8M0", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
    {"C64", 8},
}};

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view why) {
  throw IoError(fmt::format("{} is not a valid safetensors file: {}.", path.string(), why));
}

std::array<std::byte, kLengthBytes> littleEndian(std::uint64_t value) {
  return std::bit_cast<std::array<std::byte, kLengthBytes>>(value);
}

// ---- writing

// Of all extents; the shapes are this program's own.
std::uint64_t valueCount(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

// ---- reading

// Parses strictly: JSON libraries keep the last of two equal keys, which would hide a tensor.
json parseHeader(const std::filesystem::path& path, const std::string& text) {
  if (!text.starts_with('{')) refuse(path, "its header does not begin with '{'");
  // The parser would take it for the end of the text.
  if (text.find('\0') != std::string::npos) refuse(path, "its header has a zero byte");
  std::vector<std::set<std::string>> keys;  // of the objects that are open, the innermost last
  const auto noteKeys = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      refuse(path, fmt::format("its header has the name '{}' twice", parsed.get<std::string>()));
    }
    return true;
  };
  try {
    return json::parse(text, noteKeys);
  } catch (const json::exception& error) {
    refuse(path, fmt::format("its header is not JSON ({})", error.what()));
  }
}

TensorMetadata parseMetadata(const std::filesystem::path& path, const json& object) {
  if (!object.is_object()) refuse(path, "its metadata is not an object");
  TensorMetadata metadata;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) refuse(path, fmt::format("its metadata '{}' is not a string", key));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// A list of numbers that fit into 63 bits.
std::vector<std::int64_t> parseNumbers(const std::filesystem::path& path, const std::string& name,
                                       const json& tensor, const char* field) {
  const auto found = tensor.find(field);
  const auto isNumber = [](const json& value) {
    return value.is_number_unsigned() &&
           value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  };
  if (found == tensor.end() || !found->is_array() || !std::ranges::all_of(*found, isNumber)) {
    refuse(path, fmt::format("the {} of '{}' is not a list of whole numbers", field, name));
  }
  return found->get<std::vector<std::int64_t>>();
}

// The bytes that a shape needs, or more than any file has.
std::uint64_t bytesFor(std::span<const std::int64_t> shape, std::uint64_t elementBytes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::uint64_t bytes = elementBytes;
  for (const std::int64_t extent : shape) {
    const auto factor = static_cast<std::uint64_t>(extent);
    bytes = bytes > kMost / factor ? kMost : bytes * factor;
  }
  return bytes;
}

StoredTensor parseTensor(const std::filesystem::path& path, const std::string& name, const json& tensor) {
  if (!tensor.is_object()) refuse(path, fmt::format("the entry '{}' is not an object", name));
  const auto dtype = tensor.find("dtype");
  if (dtype == tensor.end() || !dtype->is_string()) refuse(path, fmt::format("'{}' has no dtype", name));
  StoredTensor stored;
  stored.name = name;
  stored.dtype = dtype->get<std::string>();
  const auto known =
      std::ranges::find_if(kElementBytes, [&](const auto& entry) { return entry.first == stored.dtype; });
  if (known == kElementBytes.end()) {
    refuse(path, fmt::format("'{}' has the unknown dtype '{}'", name, stored.dtype));
  }
  stored.shape = parseNumbers(path, name, tensor, "shape");
  const std::vector<std::int64_t> offsets = parseNumbers(path, name, tensor, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    refuse(path, fmt::format("the data_offsets of '{}' are not a begin and an end", name));
  }
  stored.offset = static_cast<std::uint64_t>(offsets[0]);
  stored.bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
  if (stored.bytes != bytesFor(stored.shape, known->second)) {
    refuse(path, fmt::format("'{}' has {} bytes, which is not what its shape needs", name, stored.bytes));
  }
  return stored;
}

// Sorts the tensors by place; they must tile the payload, no byte left out or used twice.
void requireTiling(const std::filesystem::path& path, std::vector<StoredTensor>& tensors,
                   std::uint64_t payloadBytes) {
  std::ranges::stable_sort(tensors, {}, [](const StoredTensor& t) { return std::pair(t.offset, t.bytes); });
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset != end) {
      refuse(path, fmt::format("'{}' begins at byte {} of the payload instead of {}", tensor.name,
                               tensor.offset, end));
    }
    end += tensor.bytes;
  }
  if (end != payloadBytes) {
    refuse(path, fmt::format("its tensors need {} bytes, but {} follow the header", end, payloadBytes));
  }
}

}  // namespace

std::string safetensorsHeader(std::span<const TensorShape> tensors, const TensorMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::set<std::string_view> names{kMetadataKey};
  std::uint64_t at = 0;
  for (const TensorShape& tensor : tensors) {
    COHORT_CHECK(names.insert(tensor.name).second, "a tensor's name is taken: " + tensor.name);
    const std::uint64_t end = at + valueCount(tensor.shape) * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw UsageError("A safetensors file holds only UTF-8 text; a tensor's name or the metadata is not.");
  }
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const auto length = littleEndian(text.size());
  return std::string(reinterpret_cast<const char*>(length.data()), length.size()) + text;
}

void writeSafetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                      const TensorMetadata& metadata) {
  std::vector<TensorShape> shapes;
  for (const TensorToWrite& tensor : tensors) {
    COHORT_CHECK(valueCount(tensor.shape) == tensor.values.size(),
                 "the values do not fit the shape of " + tensor.name);
    shapes.push_back({tensor.name, tensor.shape});
  }
  const std::string header = safetensorsHeader(shapes, metadata);
  AtomicFile file(path);
  file.write(header);
  for (const TensorToWrite& tensor : tensors) file.write(std::as_bytes(tensor.values));
  file.commit();
}

SafetensorsReader::SafetensorsReader(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor_) throwFileError("open", path_, errno);
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse(path_, "it is not a regular file");
  const auto fileSize = static_cast<std::uint64_t>(status.st_size);
  const std::string text = readHeader(fileSize);
  const json header = parseHeader(path_, text);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = parseMetadata(path_, value);
    } else {
      tensors_.push_back(parseTensor(path_, name, value));
    }
  }
  const std::uint64_t payload = kLengthBytes + text.size();
  requireTiling(path_, tensors_, fileSize - payload);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].offset += payload;
    byName_.emplace(tensors_[i].name, i);
  }
}

std::string SafetensorsReader::readHeader(std::uint64_t fileSize) const {
  if (fileSize < kLengthBytes) refuse(path_, fmt::format("it has only {} bytes", fileSize));
  std::array<std::byte, kLengthBytes> lengthBytes{};
  readAt(0, lengthBytes);
  const auto length = std::bit_cast<std::uint64_t>(lengthBytes);
  if (length > kLargestHeader || length > fileSize - kLengthBytes) {
    refuse(path_, fmt::format("its header should have {} bytes, but the file has {}", length, fileSize));
  }
  std::string text(length, '\0');
  readAt(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return text;
}

void SafetensorsReader::readAt(std::uint64_t offset, std::span<std::byte> bytes) const {
  readFileAt(descriptor_, path_, offset, bytes);
}

const StoredTensor* SafetensorsReader::find(std::string_view name) const {
  const auto found = byName_.find(name);
  return found == byName_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsReader::read(std::string_view name, std::span<float> values) const {
  readPart(name, values.size(), 0, values);
}

void SafetensorsReader::readPart(std::string_view name, std::size_t count, std::size_t first,
                                 std::span<float> values) const {
  COHORT_CHECK(first + values.size() <= count, "a part of a tensor lies in it");
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) throw IoError(fmt::format("{} has no tensor '{}'.", path_.string(), name));
  if (tensor->dtype != "F32") {
    throw IoError(fmt::format("The tensor '{}' in {} has the type {}, but F32 is needed.", name,
                              path_.string(), tensor->dtype));
  }
  if (tensor->bytes != count * sizeof(float)) {
    throw IoError(fmt::format("The tensor '{}' in {} has {} values, but {} are needed.", name, path_.string(),
                              tensor->bytes / sizeof(float), count));
  }
  readAt(tensor->offset + first * sizeof(float), std::as_writable_bytes(values));
}

}  // namespace cohort
