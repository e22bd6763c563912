#include "report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace cohort {
namespace {

// Chosen so that the first four are far apart, and all eight apart, also with protanopia, deuteranopia and tritanopia, and
// stand out from their background.
constexpr std::array<std::string_view, kChartColours> kLight = {"#0a55c4", "#c8560a", "#2d988b", "#7a0f6b",
                                                                "#b08a1e", "#2b9df0", "#8a2bff", "#50576e"};
constexpr std::array<std::string_view, kChartColours> kDark = {"#2f80ff", "#ee8f26", "#1fd6c0", "#e62d92",
                                                               "#dfcf3c", "#33b6ff", "#a07fd0", "#9aa8a2"};

// Bytes of the UTF-8 character that begins `text`, 0 where there is none.
std::size_t characterBytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool tooLong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool tooLarge = first == 0xf4 && byte(1) >= 0x90;
  const bool notCharacter = first == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe;
  return tooLong || surrogate || tooLarge || notCharacter ? 0 : size;
}

std::string variables(const std::array<std::string_view, kChartColours>& colours, std::string_view rest) {
  std::string text = ".chart{";
  for (std::size_t i = 0; i < colours.size(); ++i) text += fmt::format("--chart-{}:{};", i, colours[i]);
  return text + std::string(rest) + "}";
}

double characterWidth(char c) {
  constexpr std::string_view kNarrow = "iljtfrI.,:;'|!()[] /-";
  constexpr std::string_view kWide = "mwMW%@";
  if (kNarrow.find(c) != std::string_view::npos) return 0.34;
  if (kWide.find(c) != std::string_view::npos) return 0.9;
  return c >= 'A' && c <= 'Z' ? 0.69 : 0.58;
}

std::string legendMark(const LegendEntry& entry, double x, double middle) {
  const std::string colour(entry.colour < 0 ? kMuted : seriesColour(entry.colour));
  const std::string line = fmt::format(R"(<path class="stroke" fill="none" stroke="{}" stroke-width="{}")",
                                       colour, entry.mark == LegendEntry::Mark::DottedPoint ? "1.5" : "2.5");
  const std::string segment = fmt::format(R"(d="M{} {}h16"/>)", numberText(x, 1), numberText(middle, 1));
  std::string point = fmt::format(R"(<circle class="fill" cx="{}" cy="{}" r="4" fill="{}"/>)",
                                  numberText(x + 8, 1), numberText(middle, 1), colour);
  switch (entry.mark) {
    case LegendEntry::Mark::Square:
      return fmt::format(R"(<rect class="fill" x="{}" y="{}" width="11" height="11" rx="2" fill="{}"/>)",
                         numberText(x + 3, 1), numberText(middle - 5.5, 1), colour);
    case LegendEntry::Mark::Line:
      return line + " " + segment;
    case LegendEntry::Mark::DashedLine:
      return line + R"( stroke-dasharray="5 3" )" + segment;
    case LegendEntry::Mark::Point:
      return point;
    case LegendEntry::Mark::DottedPoint:
      return line + R"( stroke-dasharray="1.5 2.5" )" + segment + point;
  }
  return {};
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = characterBytes(text);
    const char c = text.front();
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') || c == 0x7f;
    if (size == 0 || control) {
      result += "\xef\xbf\xbd";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\'') {
      result += "&#39;";
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string numberText(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

std::string shortNumber(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e15)) return fmt::format("{:.3g}", value);
  constexpr std::array<std::string_view, 5> kSuffixes = {"", "k", "M", "G", "T"};
  std::size_t suffix = 0;
  double scaled = value;
  while (std::abs(scaled) >= (suffix == 0 ? 9999.5 : 999.5) && suffix + 1 < kSuffixes.size()) {
    scaled /= 1000;
    ++suffix;
  }
  const double digits = scaled == 0 ? 1 : std::floor(std::log10(std::abs(scaled))) + 1;
  return numberText(scaled, std::clamp(3 - static_cast<int>(digits), 0, 6)) + std::string(kSuffixes[suffix]);
}

double textWidth(std::string_view text, double fontSize) {
  double width = 0;
  for (const char c : text) {
    const bool continuation = (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    if (!continuation) width += static_cast<unsigned char>(c) < 0x80 ? characterWidth(c) : 0.75;
  }
  return width * fontSize;
}

std::string shortenedTo(std::string_view text, double fontSize, double width) {
  if (textWidth(text, fontSize) <= width) return std::string(text);
  while (!text.empty() && textWidth(text, fontSize) + fontSize * 0.9 > width) {
    do {
      text.remove_suffix(1);
    } while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0 &&
             (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80);
    // What is left of a character that was cut.
    while (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0) text.remove_suffix(1);
  }
  return std::string(text) + "…";
}

std::string_view seriesColour(int index) {
  return kLight[static_cast<std::size_t>(index) % kLight.size()];
}

std::string colourClass(int index) {
  return index < 0 ? "cm" : fmt::format("c{}", index % kChartColours);
}

std::string textElement(const TextPlace& place, std::string_view text) {
  constexpr std::array<std::string_view, 3> kAnchors = {"", R"( text-anchor="middle")",
                                                        R"( text-anchor="end")"};
  return fmt::format(
      R"(<text class="{}" x="{}" y="{}"{}{} fill="{}">{}</text>)",
      place.bold    ? "title"
      : place.muted ? "muted"
                    : "ink",
      numberText(place.x, 1), numberText(place.y, 1), kAnchors[static_cast<std::size_t>(place.anchor)],
      place.bold ? fmt::format(R"( font-size="{}" font-weight="600")", numberText(kTitleSize, 1)) : "",
      place.muted ? kMuted : kInk, escaped(text));
}

std::string svgElement(const std::string& title, double height, const ChartOptions& options,
                       const std::string& attributes, const std::string& body) {
  const int margin = options.standalone ? kMargin : 0;
  const int wide = options.width + 2 * margin;
  const int high = static_cast<int>(std::ceil(height)) + 2 * margin;
  std::string svg = fmt::format(
      R"(<svg{} class="chart" viewBox="{} {} {} {}" width="{}" height="{}" font-family="system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif" font-size="{}" role="img" aria-label="{}"{}>)",
      options.standalone ? R"( xmlns="http://www.w3.org/2000/svg")" : "", -margin, -margin, wide, high, wide,
      high, numberText(kFontSize, 1), escaped(title), attributes);
  if (options.standalone) {
    svg += fmt::format("<title>{}</title><style>{}</style>", escaped(title), chartStyle());
    svg += fmt::format(R"(<rect class="surface" x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", -margin,
                       -margin, wide, high, kSurface);
  }
  return svg + "\n" + body + "</svg>\n";
}

std::string chartStyle() {
  std::string style =
      variables(kLight, fmt::format("--chart-ink:{};--chart-muted:{};--chart-grid:{};--chart-surface:{}",
                                    kInk, kMuted, kGrid, kSurface));
  style +=
      "@media screen and (prefers-color-scheme:dark){" +
      variables(kDark,
                "--chart-ink:#e6e9ed;--chart-muted:#9aa3ad;--chart-grid:#2b3138;--chart-surface:#15181c") +
      "}";
  for (int i = 0; i < kChartColours; ++i)
    style += fmt::format(".chart .c{0}{{--colour:var(--chart-{0})}}", i);
  return style +
         ".chart .cm{--colour:var(--chart-muted)}"
         ".chart text{font-variant-numeric:tabular-nums}"
         ".chart .ink,.chart .title{fill:var(--chart-ink)}.chart .muted{fill:var(--chart-muted)}"
         ".chart .grid{stroke:var(--chart-grid)}.chart .axis{stroke:var(--chart-muted)}"
         ".chart .surface{fill:var(--chart-surface)}.chart .rim{stroke:var(--chart-surface)}"
         ".chart .stroke{stroke:var(--colour)}.chart .fill{fill:var(--colour)}";
}

Legend makeLegend(const std::vector<LegendEntry>& entries, double left, double top, double width) {
  constexpr double kMark = 22;
  constexpr double kGap = 16;
  constexpr double kRow = 19;
  if (entries.empty()) return {};
  Legend legend;
  double x = 0;
  double y = top;
  for (const LegendEntry& entry : entries) {
    const std::string text = shortenedTo(entry.text, kFontSize, width - kMark);
    const double wide = kMark + textWidth(text, kFontSize);
    if (x > 0 && x + wide > width) {
      x = 0;
      y += kRow;
    }
    legend.body +=
        fmt::format(R"(<g class="legend {}"{}>)", colourClass(entry.colour),
                    entry.name.empty() ? "" : fmt::format(R"( data-legend="{}")", escaped(entry.name)));
    if (text != entry.text) legend.body += fmt::format("<title>{}</title>", escaped(entry.text));
    legend.body += legendMark(entry, left + x, y + 9);
    legend.body += textElement({.x = left + x + kMark, .y = y + 13}, text) + "</g>\n";
    x += wide + kGap;
  }
  legend.height = y + kRow - top;
  return legend;
}

}  // namespace cohort
