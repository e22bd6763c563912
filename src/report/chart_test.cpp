#include "report/chart.h"

#include <cmath>
#include <limits>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "report/chart_curve.h"
#include "report/chart_scale.h"
#include "report/svg.h"

namespace cohort {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kHostile = "<b a=\"1\">&'\x01\xff\xc3\xa9\xed\xa0\x80";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

// The first group of every match.
std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

// What is wrong with the text as XML, as far as charts can go wrong: nesting, quoting, attributes given twice.
std::string xmlFault(const std::string& text) {
  const std::regex tag(R"re(<(/?)([a-z]+)((?: [a-z-]+="[^"<]*")*)(/?)>)re", std::regex::icase);
  const std::regex attribute(R"re( ([a-z-]+)="[^"]*")re");
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    std::smatch found;
    if (!std::regex_search(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), found, tag,
                           std::regex_constants::match_continuous)) {
      return "no tag: " + text.substr(at, 80);
    }
    const std::string attributes = found[3];
    std::set<std::string> seen;
    for (std::sregex_iterator name(attributes.begin(), attributes.end(), attribute), end; name != end;
         ++name) {
      if (!seen.insert((*name)[1]).second) return "twice: " + found.str();
    }
    if (found[1].length() > 0) {
      if (open.empty() || open.back() != found[2]) return "not open: " + found.str();
      open.pop_back();
    } else if (found[4].length() == 0) {
      open.push_back(found[2]);
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

Series ramp(const std::string& name, int points = 50) {
  Series series{.name = name};
  for (int i = 0; i < points; ++i) series.points.push_back({static_cast<double>(i), 0.5 * i});
  return series;
}

std::vector<Chart> oneOfEach(const std::string& text) {
  Series noisy = ramp(text);
  noisy.smoothed = true;
  noisy.kind = text;
  Series dotted = ramp(text);
  dotted.style = Series::Style::DottedPoints;
  dotted.kind = "test";
  return {
      LineChart{
          .title = text, .x = {.label = text}, .y = {.label = text}, .series = {noisy, dotted, ramp("b")}},
      LineChart{.title = text},
      PieChart{.title = text, .unit = text, .slices = {{text, 3}, {"b", 1}}},
      PieChart{.title = text},
      BarChart{.title = text,
               .axis = {.label = text},
               .groups = {text, ""},
               .series = {{text, {1, 2}}, {"b", {3}}}},
      BarChart{.title = text, .groups = {text}, .series = {{text, {1}}, {"b", {3}}}, .stacked = true},
      BarChart{.title = text}};
}

TEST(Chart, IsWellFormedWhateverTheTextsAre) {
  for (const std::string& text :
       {std::string("plain"), std::string(kHostile), std::string(500, 'w'), std::string()}) {
    for (const Chart& chart : oneOfEach(text)) {
      for (const int width : {640, 350, 200}) {
        const std::string svg = toSvg(chart, {.width = width});
        EXPECT_EQ(xmlFault(svg), "");
        EXPECT_EQ(svg.find("<b "), std::string::npos);
        EXPECT_EQ(svg.find('\x01'), std::string::npos);
        EXPECT_EQ(svg.find('\xff'), std::string::npos);
      }
    }
  }
}

TEST(Chart, HasTheSameBytesForTheSameValues) {
  const std::vector<Chart> first = oneOfEach("a");
  const std::vector<Chart> second = oneOfEach("a");
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(toSvg(first[i]), toSvg(second[i]));
}

TEST(Chart, IsAPictureOfItsOwnOrAPartOfAPage) {
  const Chart chart = LineChart{.title = "t", .series = {ramp("a")}};
  const std::string alone = toSvg(chart);
  EXPECT_EQ(count(alone, "<style>"), 1u);
  EXPECT_EQ(count(alone, "xmlns"), 1u);
  EXPECT_EQ(count(alone, R"(width="640")"), 2u);  // the picture and its background
  EXPECT_NE(alone.find("prefers-color-scheme:dark"), std::string::npos);
  const std::string part = toSvg(chart, {.standalone = false});
  EXPECT_EQ(count(part, "<style>"), 0u);
  EXPECT_EQ(count(part, "http"), 0u);
  EXPECT_EQ(part.rfind("<svg class=\"chart\" viewBox=\"0 0 640 ", 0), 0u);
}

TEST(LineChart, LeavesGapsWhereValuesAreNotFinite) {
  Series series{
      .name = "a",
      .points = {
          {0, 1}, {1, 2}, {2, kNaN}, {3, kInfinity}, {4, 3}, {kNaN, 3}, {5, -kInfinity}, {6, 2}, {7, 1}}};
  for (const bool smoothed : {false, true}) {
    series.smoothed = smoothed;
    const std::string svg = toSvg(LineChart{.series = {series}});
    const std::vector<std::string> paths = matches(svg, R"re(<path class="stroke curve"[^>]* d="([^"]*)")re");
    ASSERT_EQ(paths.size(), 1u);
    EXPECT_EQ(count(paths[0], "M"), 3u);
    EXPECT_EQ(count(paths[0], "h0"), 1u);  // the point alone
    EXPECT_TRUE(matches(svg, R"re(="([^"]*(?:nan|inf)[^"]*)")re").empty());
  }
}

TEST(LineChart, DrawsValuesOfAnySize) {
  const double largest = std::numeric_limits<double>::max();
  const double smallest = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<ChartPoint>> cases = {
      {{0, largest}, {largest, -largest}},
      {{0, smallest}, {smallest, 0}},
      {{1, 1e300}, {2, 1e-300}, {3, 0}, {4, -1}},
      {{5, 5}},
      {{5, 0}, {5, 0}},
      {{-3, -7}, {-2, -7}},
  };
  for (const std::vector<ChartPoint>& points : cases) {
    for (const int variant : {0, 1, 2, 3}) {
      const bool log = (variant & 1) != 0;
      const LineChart chart{.x = {.log = log},
                            .y = {.log = log},
                            .series = {{.name = "a", .points = points, .smoothed = (variant & 2) != 0}}};
      const std::string svg = toSvg(chart);
      EXPECT_EQ(xmlFault(svg), "");
      EXPECT_TRUE(matches(svg, R"re(="([^"]*(?:nan|inf)[^"]*)")re").empty());
      EXPECT_TRUE(matches(svg, R"re(d="([^"]*e[^"]*)")re").empty());
    }
  }
}

TEST(LineChart, MapsTheEndsOfItsRangesToTheEndsOfThePlot) {
  const LineChart chart{.series = {{.name = "a", .points = {{0, 0}, {10, 100}}}}};
  const std::string svg = toSvg(chart, {.standalone = false});
  const std::string plot = matches(svg, R"re(data-plot="([^"]*)")re").at(0);
  std::istringstream numbers(plot);
  std::string left;
  std::string top;
  std::string width;
  std::string height;
  numbers >> left >> top >> width >> height;
  EXPECT_EQ(matches(svg, R"re(class="stroke curve"[^>]* d="([^"]*)")re").at(0),
            "M0 " + height + " " + width + " 0");
  EXPECT_EQ(matches(svg, R"re(data-x="([^"]*)")re").at(0), "0 10");
  EXPECT_EQ(matches(svg, R"re(data-y="([^"]*)")re").at(0), "0 100");
}

TEST(LineChart, GivesSeriesOfOneNameOneColourAndOneEntry) {
  Series training = ramp("run");
  training.kind = "training";
  Series test = ramp("run");
  test.kind = "test";
  test.style = Series::Style::DottedPoints;
  const std::string two = toSvg(LineChart{.series = {ramp("other"), training, test}});
  EXPECT_EQ(matches(two, R"re(class="series (c\d)" data-name="run")re"),
            (std::vector<std::string>{"c1", "c1", "c1"}));
  EXPECT_EQ(matches(two, R"re(data-legend="([^"]*)")re"), (std::vector<std::string>{"other", "run"}));
  EXPECT_EQ(count(two, ">training<") + count(two, ">test<"), 2u);
  // One name needs no entry: the kinds have its colour.
  const std::string one = toSvg(LineChart{.series = {training, test}});
  EXPECT_TRUE(matches(one, R"re(data-legend="([^"]*)")re").empty());
  EXPECT_EQ(matches(one, R"re(class="legend ([^"]*)")re"), (std::vector<std::string>{"c0", "c0"}));
}

TEST(LineChart, DashesLinesWhoseColourWasUsedBefore) {
  LineChart chart;
  for (int i = 0; i <= kChartColours; ++i) chart.series.push_back(ramp("run " + std::to_string(i), 50 + i));
  const std::string svg = toSvg(chart);
  EXPECT_EQ(count(svg, R"(stroke-dasharray="6 4")"), 1u);
  EXPECT_EQ(count(svg, R"(class="series c0")"), 2u);
}

TEST(LineChart, LetsEqualCurvesShowThroughEachOther) {
  const std::string svg = toSvg(LineChart{.series = {ramp("a"), ramp("b"), ramp("c"), ramp("d", 40)}});
  EXPECT_EQ(matches(svg, R"re(<path class="stroke curve"[^>]* stroke-dasharray="([^"]*)")re"),
            (std::vector<std::string>{"9 9", "9 18"}));
  const std::string points = toSvg(LineChart{.series = {ramp("a", 1), ramp("b", 1)}});
  EXPECT_EQ(matches(points, R"re(<circle class="fill rim"[^>]* r="([^"]*)")re"),
            (std::vector<std::string>{"3", "1.8"}));
}

TEST(LineChart, ShowsThePointsOfShortSeries) {
  EXPECT_EQ(count(toSvg(LineChart{.series = {ramp("a", 5)}}), "<circle class=\"fill rim\""), 5u);
  EXPECT_EQ(count(toSvg(LineChart{.series = {ramp("a", 500)}}), "<circle class=\"fill rim\""), 0u);
}

TEST(LineChart, IsNotFlattenedByAFewOutliersOfNoisyValues) {
  Series series{.name = "a", .smoothed = true};
  for (int i = 0; i < 1000; ++i)
    series.points.push_back({static_cast<double>(i), i == 500 ? 1e4 : 1 + 0.1 * std::sin(i)});
  const std::string svg = toSvg(LineChart{.series = {series}});
  // The smooth line keeps a part of the outlier, so the range is not the noise's alone, but it is not the outlier's either.
  EXPECT_LT(std::stod(matches(svg, R"re(data-y="[^ ]* ([^"]*)")re").at(0)), 1000);
}

TEST(PieChart, DividesTheCircleByTheValues) {
  const std::string svg = toSvg(
      PieChart{.slices = {{"a", 3}, {"none", 0}, {"less", -1}, {"odd", kNaN}, {"b", 1}}}, {.width = 400});
  EXPECT_EQ(matches(svg, R"re(<title>([ab]: [^<]*)</title>)re"),
            (std::vector<std::string>{"a: 75%", "b: 25%"}));
  EXPECT_EQ(count(svg, "<g class=\"slice"), 2u);
  EXPECT_EQ(count(svg, " 0 1 1 "), 1u);  // the large arc
  EXPECT_EQ(count(svg, " 0 0 1 "), 1u);
  EXPECT_EQ(count(svg, "none") - count(svg, "fill=\"none\""), 0u);
}

TEST(PieChart, OfOneSliceIsACircle) {
  const std::string svg = toSvg(PieChart{.slices = {{"a", 3}}});
  EXPECT_EQ(count(svg, "<circle class=\"fill\""), 1u);
  EXPECT_EQ(count(svg, "100.0%"), 1u);
}

TEST(BarChart, DrawsLengthsInProportion) {
  const BarChart grouped{.groups = {"g"}, .series = {{"a", {1}}, {"b", {2}}, {"bad", {kNaN}}}};
  const std::vector<std::string> widths =
      matches(toSvg(grouped), R"re(<rect class="fill" x="2"[^>]* width="([^"]*)" height="16")re");
  ASSERT_EQ(widths.size(), 3u);
  EXPECT_NEAR(std::stod(widths[1]), 2 * std::stod(widths[0]), 0.02);
  EXPECT_EQ(widths[2], "0");

  BarChart stacked{
      .axis = {.percent = true, .max = 1}, .groups = {"g"}, .series = {{"a", {0.25}}, {"b", {0.75}}}};
  stacked.stacked = true;
  const std::string svg = toSvg(stacked, {.width = 404, .standalone = false});
  EXPECT_EQ(matches(svg, R"re(<rect class="fill" x="([^"]*)"[^>]* height="24")re"),
            (std::vector<std::string>{"2", "102"}));
}

std::vector<std::string> labels(const Axis& axis, double low, double high, int wanted = 5) {
  ValueRange range;
  range.add(low);
  range.add(high);
  std::vector<std::string> texts;
  const AxisScale scale(axis, range, 100, wanted, true);
  for (const Tick& tick : scale.ticks()) texts.push_back(tick.label);
  return texts;
}

TEST(AxisScale, LabelsRoundNumbers) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(labels({}, 0, 1), (Texts{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(labels({}, 0.13, 2.4), (Texts{"0", "0.5", "1", "1.5", "2", "2.5"}));
  EXPECT_EQ(labels({}, 0, 10000), (Texts{"0", "2k", "4k", "6k", "8k", "10k"}));
  EXPECT_EQ(labels({}, 0, 4000), (Texts{"0", "1000", "2000", "3000", "4000"}));
  EXPECT_EQ(labels({}, 2.0e6, 2.1e7), (Texts{"0", "5M", "10M", "15M", "20M", "25M"}));
  EXPECT_EQ(labels({}, -1, 1), (Texts{"-1", "-0.5", "0", "0.5", "1"}));
  EXPECT_EQ(labels({}, 0, 4e-9), (Texts{"0", "1e-09", "2e-09", "3e-09", "4e-09"}));
  EXPECT_EQ(labels({.percent = true}, 0.981, 0.989),
            (Texts{"98%", "98.2%", "98.4%", "98.6%", "98.8%", "99%"}));
  EXPECT_EQ(labels({.log = true}, 1e-3, 1e2), (Texts{"0.001", "0.01", "0.1", "1", "10", "100"}));
  EXPECT_EQ(labels({.log = true}, 0.15, 2.5), (Texts{"0.2", "0.5", "1", "2"}));
  EXPECT_EQ(labels({.log = true, .ticks = {1, 2, 4, 8, 64}}, 1, 8), (Texts{"1", "2", "4", "8"}));
}

TEST(AxisScale, KeepsGivenEnds) {
  ValueRange range;
  range.add(0.2);
  range.add(0.9);
  const AxisScale scale({.min = 0, .max = 1}, range, 100, 5, true);
  EXPECT_EQ(scale.low(), 0);
  EXPECT_EQ(scale.high(), 1);
  EXPECT_DOUBLE_EQ(scale.place(0.25), 25);
}

TEST(SmoothCurve, KeepsAStraightLineUpToItsEnds) {
  for (const int points : {1, 2, 5, 200, 9999}) {
    const Series series = ramp("a", points);
    const std::vector<ChartPoint> smooth = smoothCurve(series.points);
    ASSERT_EQ(std::ssize(smooth), points);
    double worst = 0;
    for (std::size_t i = 0; i < smooth.size(); ++i) {
      EXPECT_EQ(smooth[i].x, series.points[i].x);
      worst = std::max(worst, std::abs(smooth[i].y - series.points[i].y));
    }
    // Only the outer blocks of a long run, whose points are not all among the blocks' means, are held back a little.
    EXPECT_LT(worst, points < 2000 ? 1e-9 : 2) << points;
  }
}

TEST(SmoothCurve, RemovesNoiseAndKeepsGaps) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1000; ++i)
    points.push_back({static_cast<double>(i), i % 100 == 7 ? kNaN : i % 2 == 0 ? 1.0 : 3.0});
  const std::vector<ChartPoint> smooth = smoothCurve(points);
  for (std::size_t i = 0; i < smooth.size(); ++i) {
    if (i % 100 == 7) {
      EXPECT_TRUE(std::isnan(smooth[i].y));
    } else {
      EXPECT_NEAR(smooth[i].y, 2, 0.25) << i;
    }
  }
}

TEST(Thinned, KeepsFirstLowestHighestAndLastOfEachColumn) {
  const std::vector<ChartPoint> pixels = {{0.1, 5}, {0.2, 9},     {0.3, 6},     {0.4, 1}, {0.5, 4},
                                          {1.5, 2}, {kNaN, kNaN}, {kNaN, kNaN}, {1.6, 3}};
  EXPECT_EQ(pathData(thinned(pixels, 1), 1), "M0.1 5 0.2 9 0.4 1 0.5 4 1.5 2M1.6 3h0");
}

TEST(NumberText, IsShortAndExact) {
  EXPECT_EQ(numberText(1.5, 2), "1.5");
  EXPECT_EQ(numberText(-0.001, 2), "0");
  EXPECT_EQ(numberText(100, 0), "100");
  EXPECT_EQ(numberText(1.005e3, 1), "1005");
  EXPECT_EQ(shortNumber(61'100'840), "61.1M");
  EXPECT_EQ(shortNumber(9999), "9999");
  EXPECT_EQ(shortNumber(999'600), "1M");
  EXPECT_EQ(shortNumber(0.01234), "0.0123");
  EXPECT_EQ(shortNumber(0), "0");
  EXPECT_EQ(shortNumber(kNaN), "–");
}

TEST(Escaped, ReplacesWhatXmlMayNotContain) {
  EXPECT_EQ(escaped("a<b>&\"'\xc3\xa9"), "a&lt;b&gt;&amp;&quot;&#39;\xc3\xa9");
  for (const char* bad : {"\x01", "\x7f", "\xff", "\xc0", "\xc3", "\x80"})
    EXPECT_EQ(escaped(bad), "\xef\xbf\xbd");
  EXPECT_EQ(escaped("\xc3(").back(), '(');
}

TEST(ShortenedTo, CutsWholeCharacters) {
  EXPECT_EQ(shortenedTo("short", 12, 100), "short");
  for (int width = 0; width < 100; width += 3) {
    const std::string cut = shortenedTo("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 and more of this", 12, width);
    EXPECT_EQ(escaped(cut).find("\xef\xbf\xbd"), std::string::npos) << cut;
    if (width > 12) {
      EXPECT_LE(textWidth(cut, 12), width);
    }
  }
}

}  // namespace
}  // namespace cohort
