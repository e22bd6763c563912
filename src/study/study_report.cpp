#include "study/study_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "report/console.h"

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.25rem .75rem;border-bottom:1px solid #8884;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre,code{font:13px/1.45 ui-monospace,monospace}
pre{overflow-x:auto;padding:.75rem;border:1px solid #8884;border-radius:6px}
.bad{color:#c0392b}
.charts{display:flex;flex-wrap:wrap;gap:1.5rem}
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string numberText(double value, int digits = 4) {
  const double size = std::abs(value);
  if (size < 1e15 && (value == std::trunc(value) || size >= std::pow(10.0, digits - 1))) {
    return groupedText(std::llround(value));
  }
  return fmt::format("{:.{}g}", value, digits);
}

// "12.3", "12.3 ± 0.4" for repetitions (their standard deviation), the text where it is no number.
std::string measureCell(const Study& study, const std::vector<const RunRecord*>& runs,
                        const std::string& key) {
  std::vector<double> values;
  for (const RunRecord* record : runs) {
    const auto value = numberOf(study, *record, key);
    if (value) values.push_back(*value);
  }
  if (values.empty()) {
    for (const RunRecord* record : runs) {
      if (record->summary.is_object() && record->summary.contains(key) && record->summary.at(key).is_string())
        return escaped(record->summary.at(key).get<std::string>());
    }
    return "";
  }
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  if (values.size() == 1) return numberText(mean);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return fmt::format("{} ± {}", numberText(mean),
                     numberText(std::sqrt(squares / static_cast<double>(values.size() - 1)), 2));
}

std::string pointsTable(const Study& study, std::span<const RunRecord> records) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const RunRecord*>> byPoint;
  bool repeated = false;
  for (const RunRecord& record : records) {
    std::vector<const RunRecord*>& runs = byPoint[record.run->point];
    if (runs.empty()) order.push_back(record.run->point);
    runs.push_back(&record);
    repeated |= runs.size() > 1;
  }
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& name : study.varied) html += fmt::format("<th>{}</th>", escaped(name));
  if (repeated) html += "<th class=\"n\">runs</th>";
  for (const std::string& key : study.measures) html += fmt::format("<th class=\"n\">{}</th>", escaped(key));
  html += "</tr></thead><tbody>\n";
  for (const std::string& point : order) {
    std::vector<const RunRecord*> finished;
    for (const RunRecord* record : byPoint[point]) {
      if (record->finished) finished.push_back(record);
    }
    html += "<tr>";
    for (const std::string& value : byPoint[point].front()->varied)
      html += fmt::format("<td>{}</td>", escaped(value));
    if (repeated) html += fmt::format("<td class=\"n\">{}</td>", finished.size());
    for (const std::string& key : study.measures)
      html += fmt::format("<td class=\"n\">{}</td>", measureCell(study, finished, key));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string stateText(const RunRecord& record) {
  if (record.finished) return record.resumed() ? "finished, resumed on the way" : "finished";
  if (!record.outcome.exitCode) return record.outcome.attempts > 0 ? "begun" : "to do";
  return fmt::format("<span class=\"bad\">exit code {}</span> {}", *record.outcome.exitCode,
                     escaped(record.outcome.lastLine));
}

// Every run with its raw records.
std::string runsTable(std::span<const RunRecord> records) {
  std::string html =
      "<div class=\"wide\"><table><thead><tr><th>run</th><th>state</th><th class=\"n\">processes</th>"
      "<th class=\"n\">seconds</th><th>records</th></tr></thead><tbody>\n";
  for (const RunRecord& record : records) {
    const std::string folder = fmt::format("runs/{}", escaped(record.run->name));
    html += fmt::format(
        "<tr><td><a href=\"{0}/\">{1}</a></td><td>{2}</td><td class=\"n\">{3}</td><td "
        "class=\"n\">{4:.1f}</td>"
        "<td>",
        folder, escaped(record.run->name), stateText(record), record.outcome.attempts,
        record.outcome.wallSeconds);
    if (record.outcome.attempts > 0) {
      html += fmt::format("<a href=\"{0}/output.txt\">output</a> <a href=\"{0}/outcome.json\">outcome</a>",
                          folder);
    }
    if (record.summary.is_object())
      html += fmt::format(" <a href=\"{0}/summary.json\">summary</a> <a href=\"{0}/config.yaml\">config</a>",
                          folder);
    html += "</td></tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string stateOfAll(std::span<const RunRecord> records) {
  std::size_t finished = 0;
  std::size_t failed = 0;
  std::size_t resumed = 0;
  std::set<std::string> machines;
  for (const RunRecord& record : records) {
    finished += record.finished ? 1 : 0;
    failed += !record.finished && record.outcome.exitCode ? 1 : 0;
    resumed += record.finished && record.resumed() ? 1 : 0;
    if (!record.outcome.machine.empty()) machines.insert(record.outcome.machine);
  }
  std::string html = fmt::format("<p>{} of {} runs finished", finished, records.size());
  if (failed > 0) html += fmt::format(", <span class=\"bad\">{} did not</span>", failed);
  html += ".";
  for (const std::string& machine : machines) html += fmt::format(" Machine: {}.", escaped(machine));
  if (resumed > 0) {
    html += fmt::format(" {} {} stopped and resumed: times and speeds are those of the last process.",
                        resumed, resumed == 1 ? "run was" : "runs were");
  }
  return html + "</p>\n";
}

void removeOldCharts(const fs::path& directory, std::span<const NamedChart> charts) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool wanted = std::any_of(charts.begin(), charts.end(),
                                    [&](const NamedChart& chart) { return chart.file == name; });
    if (name.starts_with("chart-") && name.ends_with(".svg") && !wanted) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

std::string measuredText(const Study& study, const RunRecord& record) {
  std::string text;
  for (const std::string& key : study.measures) {
    const auto value = numberOf(study, record, key);
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, numberText(*value));
  }
  return text;
}

std::string studyPage(const Study& study, std::span<const RunRecord> records,
                      std::span<const NamedChart> charts) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{0}</title><style>{1}{2}</style></head><body>\n<h1>{0}</h1>\n",
      escaped(study.name), kStyle, chartStyle());
  html += stateOfAll(records) + pointsTable(study, records);
  if (!charts.empty()) html += "<div class=\"charts\">\n";
  for (const NamedChart& chart : charts)
    html += fmt::format("<div>{}</div>\n", toSvg(chart.chart, {.width = 520, .standalone = false}));
  if (!charts.empty()) html += "</div>\n";
  html += "<h2>Runs</h2>\n<p>All values: <a href=\"results.csv\">results.csv</a></p>\n" + runsTable(records);
  html += fmt::format("<h2>The study's file</h2>\n<pre>{}</pre>\n</body></html>\n", escaped(study.text));
  return html;
}

void writeStudyReport(const Study& study, std::span<const RunRecord> records, const fs::path& directory) {
  const std::vector<NamedChart> charts = studyCharts(study, records);
  writeWholeFile(directory / "results.csv", resultsCsv(study, records));
  removeOldCharts(directory, charts);
  for (const NamedChart& chart : charts) writeWholeFile(directory / chart.file, toSvg(chart.chart));
  writeWholeFile(directory / "report.html", studyPage(study, records, charts));
}

}  // namespace cohort
