#include "data/contact_sheet.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace cohort {
namespace {

std::size_t index(int value) {
  return static_cast<std::size_t>(value);
}

// For each row the images that it shows.
std::vector<std::vector<std::int64_t>> chooseSamples(const ImageSet& set,
                                                     const ContactSheetOptions& options) {
  std::vector<std::vector<std::int64_t>> rows(std::min(set.classNames().size(), index(options.rows)));
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const auto label = static_cast<std::size_t>(set.label(i));
    if (label < rows.size()) rows[label].push_back(i);
  }
  for (auto& row : rows) {
    const std::size_t shown = std::min(row.size(), index(options.columns));
    for (std::size_t i = 0; i < shown; ++i) row[i] = row[i * row.size() / shown];
    row.resize(shown);
  }
  return rows;
}

// Part of a source axis: where it begins, and how much each of its pixels counts.
struct Window {
  int begin = 0;
  std::vector<int> weights;
};

// The window of each of `to` pixels over `from` pixels: a pixel is the mean of what it covers, parts counting as parts, so
// where `to` is a multiple of `from` pixels repeat. The weights of a window make `from` in all.
std::vector<Window> windows(int from, int to) {
  std::vector<Window> result(index(to));
  for (int i = 0; i < to; ++i) {
    // In units of 1 / to of a source pixel.
    const std::int64_t begin = std::int64_t{i} * from;
    const std::int64_t end = begin + from;
    result[index(i)].begin = static_cast<int>(begin / to);
    for (std::int64_t pixel = begin / to; pixel * to < end; ++pixel) {
      const std::int64_t part = std::min(end, (pixel + 1) * to) - std::max(begin, pixel * to);
      result[index(i)].weights.push_back(static_cast<int>(part));
    }
  }
  return result;
}

// The size of one side in the cell, where the longer side has `longer` pixels.
int scaledSide(int side, int longer, int cell) {
  if (longer <= cell) return side * (cell / longer);
  return std::max<int>(1, static_cast<int>((std::int64_t{side} * cell + longer / 2) / longer));
}

std::uint8_t meanOver(const std::uint8_t* plane, int width, const Window& down, const Window& across,
                      std::int64_t total) {
  std::int64_t sum = 0;
  for (std::size_t y = 0; y < down.weights.size(); ++y) {
    const std::uint8_t* row = plane + (index(down.begin) + y) * index(width) + across.begin;
    std::int64_t inRow = 0;
    for (std::size_t x = 0; x < across.weights.size(); ++x) inRow += std::int64_t{across.weights[x]} * row[x];
    sum += inRow * down.weights[y];
  }
  return static_cast<std::uint8_t>((sum + total / 2) / total);
}

// Scales the image into the middle of the cell whose corner is at (top, left).
void place(const Image& image, int top, int left, int cell, Image& sheet) {
  const SampleShape& from = image.shape;
  const int longer = std::max(from.height, from.width);
  const int height = scaledSide(from.height, longer, cell);
  const int width = scaledSide(from.width, longer, cell);
  const std::vector<Window> down = windows(from.height, height);
  const std::vector<Window> across = windows(from.width, width);
  const std::int64_t total = std::int64_t{from.height} * from.width;
  top += (cell - height) / 2;
  left += (cell - width) / 2;
  for (int c = 0; c < sheet.shape.channels; ++c) {
    // A grey image is the same in all channels.
    const std::size_t channel = index(std::min(c, from.channels - 1));
    const std::uint8_t* plane = image.pixels.data() + channel * index(from.height) * index(from.width);
    for (int y = 0; y < height; ++y) {
      std::uint8_t* out = sheet.pixels.data() +
                          (index(c) * index(sheet.shape.height) + index(top + y)) * index(sheet.shape.width) +
                          index(left);
      for (int x = 0; x < width; ++x)
        out[x] = meanOver(plane, from.width, down[index(y)], across[index(x)], total);
    }
  }
}

}  // namespace

Image contactSheet(const ImageSet& set, const ContactSheetOptions& options) {
  COHORT_CHECK(options.rows > 0 && options.columns > 0 && options.cell > 0 && options.margin >= 0,
               "a contact sheet has cells");
  const auto rows = chooseSamples(set, options);
  std::size_t columns = 1;
  for (const auto& row : rows) columns = std::max(columns, row.size());
  const int pitch = options.cell + options.margin;

  Image sheet;
  sheet.reshape({.channels = set.shape().channels,
                 .height = static_cast<int>(rows.size()) * pitch + options.margin,
                 .width = static_cast<int>(columns) * pitch + options.margin});
  std::fill(sheet.pixels.begin(), sheet.pixels.end(), std::uint8_t{255});

  Image image;
  const ImageRequest request{.channels = sheet.shape.channels, .height = options.cell, .width = options.cell};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < rows[row].size(); ++column) {
      set.read(rows[row][column], request, image);
      place(image, options.margin + static_cast<int>(row) * pitch,
            options.margin + static_cast<int>(column) * pitch, options.cell, sheet);
    }
  }
  return sheet;
}

}  // namespace cohort
