#include "report/chart_scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "report/svg.h"

namespace cohort {
namespace {

// Doubles beyond this cannot be told apart by what is drawn; keeps the arithmetic below finite.
constexpr double kLargest = 1e300;
constexpr double kSmallest = 1e-300;

// 1, 2 or 5 times a power of ten, the smallest that divides the span into at most `wanted` parts.
double roundStep(double span, int wanted) {
  const double rough = span / std::max(wanted, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double part = rough / power;
  return power * (part <= 1.0001 ? 1 : part <= 2.0001 ? 2 : part <= 5.0001 ? 5 : 10);
}

std::vector<double> linearTicks(double low, double high, double step) {
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  const double last = std::floor(high / step + 1e-9);
  for (double i = first; i <= last && ticks.size() < 100; ++i) ticks.push_back(i * step);
  return ticks;
}

// 1, 10, 100 …, or with 2 and 5 between them where that is too few; every second power or so where it is too many.
std::vector<double> logTicks(double low, double high, int wanted) {
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  const bool between = last - first <= std::max(wanted / 2, 2);
  const int every = std::max(1, (last - first) / std::max(wanted, 1));
  std::vector<double> ticks;
  for (int exponent = first; exponent <= last; exponent += every) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double value = digit * std::pow(10.0, exponent);
      if ((digit == 1 || between) && value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9))
        ticks.push_back(value);
    }
  }
  return ticks;
}

// All with the same suffix and as many decimals as their distance needs.
std::vector<Tick> evenLabels(const std::vector<double>& values, double step, bool percent) {
  const double unit = percent ? 0.01 : 1;
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value / unit));
  constexpr std::array<std::string_view, 5> kSuffixes = {"", "k", "M", "G", "T"};
  std::size_t suffix = 0;
  double divisor = unit;
  while (largest >= 10'000 && suffix + 1 < kSuffixes.size()) {
    largest /= 1000;
    divisor *= 1000;
    ++suffix;
  }
  // 1e-9: a step of 0.1 must not become 0.09999.
  const int decimals = static_cast<int>(std::ceil(-std::log10(step / divisor) - 1e-9));
  std::vector<Tick> ticks;
  for (const double value : values) {
    const double shown = value / divisor;
    const bool plain = decimals <= 6 && std::abs(shown) < 1e6;
    ticks.push_back(
        {value,
         fmt::format("{}{}{}",
                     plain ? numberText(shown, std::max(decimals, 0))
                           : fmt::format("{:.3g}", std::abs(shown) < step * 1e-6 / divisor ? 0 : shown),
                     kSuffixes[suffix], percent ? "%" : "")});
  }
  // 0 needs no suffix; and the same number of decimals everywhere reads best in a column.
  for (Tick& tick : ticks) {
    if (tick.value == 0) tick.label = percent ? "0%" : "0";
  }
  return ticks;
}

std::vector<Tick> singleLabels(const std::vector<double>& values, bool percent) {
  std::vector<Tick> ticks;
  ticks.reserve(values.size());
  for (const double value : values) {
    ticks.push_back({value, percent ? shortNumber(value * 100) + "%" : shortNumber(value)});
  }
  return ticks;
}

}  // namespace

void ValueRange::add(double value) {
  if (!std::isfinite(value)) return;
  value = std::abs(value) < kSmallest ? 0 : std::clamp(value, -kLargest, kLargest);
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

AxisScale::AxisScale(const Axis& axis, const ValueRange& values, double pixels, int wantedTicks, bool round)
    : log_(axis.log), pixels_(pixels) {
  chooseRange(axis, values);
  // A line along an end would lose half of its width.
  if (log_ && round) {
    const double room = std::exp(0.03 * (std::log(high_) - std::log(low_)));
    if (!axis.min) low_ = std::max(low_ / room, kSmallest);
    if (!axis.max) high_ = std::min(high_ * room, kLargest);
  }
  chooseTicks(axis, wantedTicks, round);
}

void AxisScale::chooseRange(const Axis& axis, ValueRange values) {
  if (values.empty) {
    values.add(log_ ? 1 : 0);
    values.add(log_ ? 10 : 1);
  }
  low_ = values.low;
  high_ = values.high;
  if (log_) {
    high_ = std::max(high_, kSmallest);
    low_ = low_ > 0 ? std::max(low_, kSmallest) : high_ / 10;
    if (high_ < low_ * 1.01) {
      low_ /= 2;
      high_ *= 2;
    }
  } else {
    if (low_ > 0 && low_ < 0.3 * high_) low_ = 0;
    if (high_ - low_ <= 1e-9 * std::max(std::abs(low_), std::abs(high_))) {
      const double around = high_ == 0 ? 1 : std::abs(high_) * 0.1;
      low_ -= around;
      high_ += around;
    }
  }
  const auto usable = [&](const std::optional<double>& bound) {
    return bound && std::isfinite(*bound) && (!log_ || *bound > 0);
  };
  if (usable(axis.min) && *axis.min < high_) low_ = *axis.min;
  if (usable(axis.max) && *axis.max > low_) high_ = *axis.max;
}

void AxisScale::chooseTicks(const Axis& axis, int wanted, bool round) {
  if (!axis.ticks.empty()) {
    std::vector<double> inside;
    for (const double tick : axis.ticks) {
      if (shows(tick) && tick >= low_ && tick <= high_) inside.push_back(tick);
    }
    ticks_ = singleLabels(inside, axis.percent);
    return;
  }
  if (log_) {
    const std::vector<double> powers = logTicks(low_, high_, wanted);
    if (powers.size() >= 2) {
      ticks_ = singleLabels(powers, axis.percent);
      return;
    }
  }
  const double step = roundStep(high_ - low_, wanted);
  if (round && !log_) {
    if (!axis.min) low_ = std::floor(low_ / step + 1e-9) * step;
    if (!axis.max) high_ = std::ceil(high_ / step - 1e-9) * step;
  }
  ticks_ = evenLabels(linearTicks(low_, high_, step), step, axis.percent);
}

bool AxisScale::shows(double value) const {
  return std::isfinite(value) && (!log_ || value > 0);
}

double AxisScale::place(double value) const {
  // Far outside is as good as a picture's width outside: paths stay readable for every renderer.
  const double part = log_ ? (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_))
                           : (value / 2 - low_ / 2) / (high_ / 2 - low_ / 2);
  return std::clamp(part, -1.0, 2.0) * pixels_;
}

}  // namespace cohort
