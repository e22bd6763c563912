// Axes: the range of values, where the ticks are, what they say. Private to report.
#pragma once

#include <string>
#include <vector>

#include "report/chart.h"

namespace cohort {

// The smallest range that has all values that were added.
struct ValueRange {
  double low = 0;
  double high = 0;
  bool empty = true;

  void add(double value);
};

struct Tick {
  double value = 0;
  std::string label;
};

// Maps values to [0, pixels]. low < high, both finite, and positive where the axis is logarithmic.
class AxisScale {
 public:
  // Around `values`, widened: to round numbers where `round`, to 0 where 0 is near, to something where it is a point.
  AxisScale(const Axis& axis, const ValueRange& values, double pixels, int wantedTicks, bool round);

  // Whether a value has a place at all.
  bool shows(double value) const;
  double place(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  void chooseRange(const Axis& axis, ValueRange values);
  void chooseTicks(const Axis& axis, int wanted, bool round);

  bool log_ = false;
  double pixels_ = 0;
  double low_ = 0;
  double high_ = 1;
  std::vector<Tick> ticks_;
};

}  // namespace cohort
