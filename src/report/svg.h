// What all charts are written with. Private to report.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"

namespace cohort {

// For text and attributes of HTML and XML: markup characters escaped; what neither may contain (control characters, bytes
// that are not UTF-8) replaced by U+FFFD.
std::string escaped(std::string_view text);

// At most `decimals` decimals, no trailing zeros, no "-0". Not for values that are not finite.
std::string numberText(double value, int decimals);
// Three digits and a suffix: 0.0123, 9.87, 61.1M.
std::string shortNumber(double value);

// An estimate for common sans-serif fonts, in pixels.
double textWidth(std::string_view text, double fontSize);
// Cut with an ellipsis where it is wider.
std::string shortenedTo(std::string_view text, double fontSize, double width);

inline constexpr double kFontSize = 12;
inline constexpr double kTitleSize = 14;
inline constexpr double kBoldWidth = 1.16;  // bold text is about so much wider
inline constexpr int kMargin = 14;          // around a picture that is a file of its own

// The light colours, for attributes. `index` may be any number from 0 on.
std::string_view seriesColour(int index);
inline constexpr std::string_view kInk = "#1b1f24";
inline constexpr std::string_view kMuted = "#59616b";
inline constexpr std::string_view kGrid = "#e3e6ea";
inline constexpr std::string_view kSurface = "#ffffff";

// "c3": the class that sets --colour.
std::string colourClass(int index);

enum class Anchor { Start, Middle, End };
struct TextPlace {
  double x = 0;
  double y = 0;  // the baseline
  Anchor anchor = Anchor::Start;
  bool muted = false;
  bool bold = false;
};
std::string textElement(const TextPlace& place, std::string_view text);

// The whole element around `body`, whose width is options.width; `attributes` begins with a space where there are any.
std::string svgElement(const std::string& title, double height, const ChartOptions& options,
                       const std::string& attributes, const std::string& body);

// One entry of a legend: a mark, then a text.
struct LegendEntry {
  enum class Mark { Square, Line, DashedLine, Point, DottedPoint };
  std::string text;
  int colour = -1;  // -1: the colour of muted text
  Mark mark = Mark::Square;
  std::string name = {};  // data-legend: the series that it stands for
};

struct Legend {
  std::string body;
  double height = 0;
};
// Rows of entries from `top` on, as many as the width needs.
Legend makeLegend(const std::vector<LegendEntry>& entries, double left, double top, double width);

}  // namespace cohort
