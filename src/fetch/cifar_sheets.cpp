#include "fetch/cifar_sheets.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "data/image_codec.h"
#include "fetch/failure.h"
#include "fetch/output_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = std::size_t{32} * 32;
constexpr std::size_t kChannels = 3;

}  // namespace

std::vector<std::uint8_t> readSheetLabels(const fs::path& json) {
  const std::string wrong = fmt::format("{} is no array of labels from 0 to 9", json.filename().string());
  const auto parsed = nlohmann::json::parse(readWholeFile(json), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array()) throw Damaged(wrong);
  std::vector<std::uint8_t> labels;
  labels.reserve(parsed.size());
  for (const auto& value : parsed) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 9) throw Damaged(wrong);
    labels.push_back(value.get<std::uint8_t>());
  }
  return labels;
}

std::size_t convertSheet(const fs::path& png, std::span<const std::uint8_t> labels, const fs::path& records) {
  const std::string file = readWholeFile(png);
  Image sheet;
  decodeImage(std::as_bytes(std::span(file)), png.filename().string(), {.channels = 3}, sheet);
  const auto images = static_cast<std::size_t>(sheet.shape.height);
  if (static_cast<std::size_t>(sheet.shape.width) != kPixels || images > labels.size()) {
    throw Damaged(fmt::format("{} is a sheet of {}x{} pixels for {} labels", png.filename().string(),
                              sheet.shape.width, sheet.shape.height, labels.size()));
  }
  std::vector<std::uint8_t> record(1 + kChannels * kPixels);
  OutputFile out(records, OutputFile::Mode::New);
  for (std::size_t image = 0; image < images; ++image) {
    record[0] = labels[image];
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      // A row of a plane is an image's plane.
      const auto row = std::span(sheet.pixels).subspan((channel * images + image) * kPixels, kPixels);
      std::ranges::copy(row, record.begin() + static_cast<std::ptrdiff_t>(1 + channel * kPixels));
    }
    out.write(std::as_bytes(std::span(record)));
  }
  out.close();
  return images;
}

}  // namespace cohort
