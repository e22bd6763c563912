#include "report/chart_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "report/svg.h"

namespace cohort {
namespace {

bool isGap(const ChartPoint& point) {
  return !std::isfinite(point.x) || !std::isfinite(point.y);
}

constexpr double kLongest = 1e150;  // squares stay finite
constexpr std::size_t kBlocks =
    2000;  // about a picture's columns: longer runs are averaged before they are smoothed

// The value at `centre` of the line fitted to points[from, to), near ones counting more.
double fittedAt(const std::vector<ChartPoint>& points, double centre, std::size_t from, std::size_t to) {
  const double reach = std::max(centre - points[from].x, points[to - 1].x - centre) * 1.001;
  if (!(reach > 0)) return points[from].y;
  double weights = 0;
  double sumX = 0;
  double sumY = 0;
  double sumXX = 0;
  double sumXY = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (std::size_t i = from; i < to; ++i) {
    const double x = (points[i].x - centre) / reach;
    const double y = std::clamp(points[i].y, -kLongest, kLongest);
    const double edge = 1 - std::abs(x * x * x);
    const double weight = edge * edge * edge;
    weights += weight;
    sumX += weight * x;
    sumY += weight * y;
    sumXX += weight * x * x;
    sumXY += weight * x * y;
    low = std::min(low, y);
    high = std::max(high, y);
  }
  const double determinant = weights * sumXX - sumX * sumX;
  const double fitted =
      determinant > 1e-12 * weights * weights ? (sumY * sumXX - sumX * sumXY) / determinant : sumY / weights;
  // A line may overshoot where the values bend; the truth lies among them.
  return std::clamp(fitted, low, high);
}

// Means of so many finite points in a row; the last block may have fewer.
std::vector<ChartPoint> blockMeans(const std::vector<ChartPoint>& points, std::size_t size) {
  std::vector<ChartPoint> means;
  std::size_t inBlock = 0;
  for (const ChartPoint& point : points) {
    if (isGap(point)) continue;
    if (inBlock == 0) means.push_back({0, 0});
    ++inBlock;
    // Running means: sums of large values would not stay finite.
    means.back().x += (point.x - means.back().x) / static_cast<double>(inBlock);
    means.back().y += (point.y - means.back().y) / static_cast<double>(inBlock);
    inBlock %= size;
  }
  return means;
}

}  // namespace

std::vector<ChartPoint> smoothCurve(const std::vector<ChartPoint>& points) {
  const auto finite = static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(), [](const ChartPoint& point) { return !isGap(point); }));
  const std::size_t blockSize = finite / kBlocks + 1;
  const std::vector<ChartPoint> blocks = blockMeans(points, blockSize);
  // A fortieth of the run to each side.
  const std::size_t radius = std::max<std::size_t>(2, blocks.size() / 40);
  std::vector<ChartPoint> result = points;
  std::size_t seen = 0;
  for (ChartPoint& point : result) {
    if (isGap(point)) continue;
    const std::size_t block = seen++ / blockSize;
    const std::size_t from = block > radius ? block - radius : 0;
    point.y = fittedAt(blocks, point.x, from, std::min(blocks.size(), block + radius + 1));
  }
  return result;
}

std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& pixels, double column) {
  std::vector<ChartPoint> result;
  const auto columnOf = [&](const ChartPoint& point) { return std::floor(point.x / column); };
  std::size_t begin = 0;
  while (begin < pixels.size()) {
    if (isGap(pixels[begin])) {
      if (!result.empty() && !isGap(result.back())) result.push_back(pixels[begin]);
      ++begin;
      continue;
    }
    std::size_t end = begin;
    std::size_t lowest = begin;
    std::size_t highest = begin;
    for (; end < pixels.size() && !isGap(pixels[end]) && columnOf(pixels[end]) == columnOf(pixels[begin]);
         ++end) {
      if (pixels[end].y < pixels[lowest].y) lowest = end;
      if (pixels[end].y > pixels[highest].y) highest = end;
    }
    std::array<std::size_t, 4> kept = {begin, std::min(lowest, highest), std::max(lowest, highest), end - 1};
    const auto last = std::unique(kept.begin(), kept.end());
    for (auto index = kept.begin(); index != last; ++index) result.push_back(pixels[*index]);
    begin = end;
  }
  return result;
}

std::string pathData(const std::vector<ChartPoint>& pixels, int decimals) {
  std::string path;
  std::size_t inPart = 0;
  const auto endPart = [&] {
    if (inPart == 1) path += "h0";
    inPart = 0;
  };
  for (const ChartPoint& point : pixels) {
    if (isGap(point)) {
      endPart();
      continue;
    }
    path += inPart == 0 ? "M" : " ";
    path += numberText(point.x, decimals) + " " + numberText(point.y, decimals);
    ++inPart;
  }
  endPart();
  return path;
}

double quantile(std::vector<double> values, double part) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto at = static_cast<std::ptrdiff_t>(std::lround(part * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

}  // namespace cohort
