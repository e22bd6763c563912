#include "report/report_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "report/console.h"
#include "report/page_assets.h"
#include "report/report_charts.h"
#include "report/svg.h"

namespace cohort {
namespace {

constexpr int kWide = 600;
constexpr int kNarrow = 344;
constexpr int kPie = 246;

// What a table says of a run; texts are plain, empty where nothing is known.
struct RunFacts {
  std::string network;
  std::string dataset;
  std::string steps;
  std::string state;  // empty: finished
  std::string loss;
  std::string accuracy;
  std::string accuracyNote;
  std::string speed;
  std::string elapsed;
  std::string hash;
};

std::string percentText(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f}%", share * 100) : "";
}

const EvaluationPoint* lastEvaluation(const RunRecords& run) {
  const EvaluationPoint* last = nullptr;
  for (const EvaluationPoint& point : run.metrics.evaluations) {
    if (std::isfinite(point.accuracy) && (last == nullptr || point.step >= last->step)) last = &point;
  }
  return last;
}

// From the summary, or else from the last points.
RunFacts factsOf(const RunRecords& run) {
  RunFacts facts;
  const std::optional<RunOutcome>& outcome = run.outcome;
  const std::vector<TrainPoint>& points = run.metrics.training;
  facts.network = outcome && !outcome->network.empty() ? outcome->network : run.setting("network");
  facts.dataset = outcome && !outcome->dataset.empty() ? outcome->dataset : run.setting("dataset");
  const Step step = std::max(outcome ? outcome->step : 0, points.empty() ? 0 : points.back().step);
  facts.steps = groupedText(step);
  // A run that goes on after its summary has written more points.
  const bool goesOn = !outcome || step > outcome->step;
  facts.state = goesOn ? "unfinished" : outcome->interrupted ? "interrupted" : "";

  const double loss = !goesOn ? outcome->loss : points.empty() ? NAN : points.back().loss;
  if (std::isfinite(loss)) facts.loss = fmt::format("{:.4f}", loss);
  const EvaluationPoint* last = lastEvaluation(run);
  if (!goesOn && std::isfinite(outcome->accuracy)) {
    facts.accuracy = percentText(outcome->accuracy);
    if (std::isfinite(outcome->top5)) facts.accuracyNote = "top 5: " + percentText(outcome->top5);
  } else if (last != nullptr) {
    facts.accuracy = percentText(last->accuracy);
    facts.accuracyNote = fmt::format("{}, step {}", last->split, groupedText(last->step));
  }
  const double speed = !goesOn          ? outcome->imagesPerSecond
                       : points.empty() ? NAN
                                        : points.back().imagesPerSecond;
  if (std::isfinite(speed)) {
    facts.speed = speed < 100 ? fmt::format("{:.1f}", speed) : groupedText(std::llround(speed));
  }
  const std::vector<double> times = elapsedTimes(points);
  const double measured = times.empty() ? 0 : times.back();
  const double elapsed = outcome && std::isfinite(outcome->elapsedSeconds)
                             ? std::max(measured, outcome->elapsedSeconds)
                             : measured;
  if (elapsed > 0) facts.elapsed = clockText(elapsed);
  if (!goesOn) facts.hash = outcome->weightsHash;
  return facts;
}

std::string swatch(std::size_t run) {
  return fmt::format(R"(<i class="swatch {}"></i>)", colourClass(static_cast<int>(run)));
}

std::string hashText(const std::string& hash) {
  if (hash.empty()) return {};
  return fmt::format(R"(<code title="{}">{}</code>)", escaped(hash), escaped(hash.substr(0, 12)));
}

std::string noted(const std::string& text, const std::string& note) {
  return note.empty() ? escaped(text) : fmt::format("{} <small>{}</small>", escaped(text), escaped(note));
}

// ---- the runs

std::string runTable(std::span<const RunRecords> runs) {
  std::string html =
      "<div class=\"card scroll chart\"><table "
      "class=\"runs\"><thead><tr><th>run</th><th>network</th><th>dataset</th>"
      "<th class=\"number\">steps</th><th class=\"number\">accuracy</th><th class=\"number\">training "
      "loss</th>"
      "<th class=\"number\">images/s</th><th class=\"number\">time</th><th>weights "
      "hash</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunFacts facts = factsOf(runs[i]);
    const auto cell = [&](const char* label, const std::string& content, bool number) {
      html += fmt::format(R"(<td data-label="{}"{}>{}</td>)", label, number ? R"( class="number")" : "",
                          // One element beside the label, however many parts it has.
                          content.empty() ? "" : "<span>" + content + "</span>");
    };
    html += fmt::format("<tr><th>{}{}</th>", swatch(i), escaped(runs[i].name));
    cell("network", escaped(facts.network), false);
    cell("dataset", escaped(facts.dataset), false);
    cell("steps", noted(facts.steps, facts.state), true);
    cell("accuracy", noted(facts.accuracy, facts.accuracyNote), true);
    cell("training loss", escaped(facts.loss), true);
    cell("images/s", escaped(facts.speed), true);
    cell("time", escaped(facts.elapsed), true);
    cell("weights hash", hashText(facts.hash), false);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// One run's facts, large.
std::string factList(const RunFacts& facts) {
  std::string html = "<dl class=\"facts\">";
  const auto add = [&](const char* name, const std::string& text, const std::string& note) {
    if (text.empty()) return;
    html += fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>", name, text,
                        note.empty() ? "" : fmt::format("<small>{}</small>", escaped(note)));
  };
  add("accuracy", escaped(facts.accuracy), facts.accuracyNote);
  add("training loss", escaped(facts.loss), "");
  add("steps", escaped(facts.steps), facts.state);
  add("images/s", escaped(facts.speed), "");
  add("time", escaped(facts.elapsed), "");
  add("weights hash", hashText(facts.hash), "");
  return html + "</dl>\n";
}

// The promise of synchronous training, where it can be seen: runs that ended with the same weights.
std::string sameWeights(std::span<const RunRecords> runs) {
  std::map<std::string, std::vector<std::string>> byHash;
  for (const RunRecords& run : runs) {
    const std::string hash = factsOf(run).hash;
    if (!hash.empty()) byHash[hash].push_back(escaped(run.name));
  }
  std::string html;
  for (const auto& [hash, names] : byHash) {
    if (names.size() < 2) continue;
    html += fmt::format("<p>{} and {} have the same weights, bit for bit.</p>\n",
                        fmt::join(names.begin(), names.end() - 1, ", "), names.back());
  }
  return html;
}

// ---- charts

std::string figure(const Chart& chart) {
  return fmt::format(
      "<figure class=\"card\"><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>\n",
      toSvg(chart, {.width = kWide, .standalone = false}),
      toSvg(chart, {.width = kNarrow, .standalone = false}));
}

std::string figures(const std::vector<ReportChart>& charts) {
  std::string html = "<div class=\"grid\">\n";
  for (const ReportChart& chart : charts) html += figure(chart.chart);
  return html + "</div>\n";
}

// ---- settings

// All names, in the order of the runs' files.
std::vector<std::string> settingNames(std::span<const RunRecords> runs) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const RunRecords& run : runs) {
    for (const auto& [name, value] : run.settings) {
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

std::string settingTable(std::span<const RunRecords> runs, const std::vector<std::string>& names) {
  std::string html = "<div class=\"card scroll chart\"><table class=\"settings\"><thead><tr><th>setting</th>";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format("<th>{}{}</th>", runs.size() > 1 ? swatch(i) : "", escaped(runs[i].name));
  }
  html += "</tr></thead><tbody>\n";
  for (const std::string& name : names) {
    html += fmt::format("<tr><th>{}</th>", escaped(name));
    for (const RunRecords& run : runs) html += fmt::format("<td>{}</td>", escaped(run.setting(name)));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string settings(std::span<const RunRecords> runs) {
  const std::vector<std::string> all = settingNames(runs);
  if (all.empty()) return {};
  std::vector<std::string> different;
  std::copy_if(all.begin(), all.end(), std::back_inserter(different), [&](const std::string& name) {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const RunRecords& run) { return run.setting(name) != runs[0].setting(name); });
  });
  std::string html = "<h2>Settings</h2>\n";
  if (!different.empty()) {
    html += "<p class=\"muted\">Where the runs differ:</p>\n" + settingTable(runs, different);
  } else if (runs.size() > 1) {
    html += "<p>All runs have the same settings.</p>\n";
  }
  return html +
         fmt::format("<details><summary>All settings</summary>{}</details>\n", settingTable(runs, all));
}

// ---- layers

double secondsOf(const LayerRecord& layer) {
  return (std::isfinite(layer.forwardSeconds) ? layer.forwardSeconds : 0) +
         (std::isfinite(layer.backwardSeconds) ? layer.backwardSeconds : 0);
}

std::string millisecondText(double seconds) {
  return std::isfinite(seconds) ? shortNumber(seconds * 1000) : "";
}

std::string countText(double count) {
  return std::isfinite(count) && count > 0 && count < 1e18 ? groupedText(std::llround(count)) : "";
}

int kindColour(const std::string& kind) {
  return kind == "conv" ? 0 : kind == "dense" ? 1 : kind == "pool" ? 2 : 7;
}

std::string layerTable(const RunRecords& run) {
  double total = 0;
  for (const LayerRecord& layer : run.layers) total += std::max(0.0, secondsOf(layer));
  std::string html =
      "<div class=\"card scroll chart\"><table><thead><tr><th>layer</th><th>operator</th><th>output</th>"
      "<th class=\"number\">parameters</th><th class=\"number\">multiply-adds</th><th "
      "class=\"number\">forward, ms</th>"
      "<th class=\"number\">backward, ms</th><th>share of time</th></tr></thead><tbody>\n";
  for (const LayerRecord& layer : run.layers) {
    const double share = total > 0 ? std::max(0.0, secondsOf(layer)) / total : 0;
    html += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
        "<td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"meter {}\">",
        escaped(layer.name), escaped(layer.operation), escaped(layer.output), countText(layer.parameters),
        std::isfinite(layer.multiplyAdds) && layer.multiplyAdds > 0 ? shortNumber(layer.multiplyAdds) : "",
        millisecondText(layer.forwardSeconds), millisecondText(layer.backwardSeconds),
        colourClass(kindColour(layer.kind)));
    if (total > 0) {
      html += fmt::format("<span>{:.1f}%</span><i style=\"width:{}px\"></i>", share * 100,
                          numberText(share * 150, 1));
    }
    html += "</td></tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// Both pies of a run on one card.
std::string pies(std::span<const RunRecords> runs) {
  std::string html;
  for (const RunRecords& run : runs) {
    const std::vector<ReportChart> charts = layerCharts({&run, 1});
    if (charts.empty()) continue;
    html += "<figure class=\"card pies\">";
    for (const ReportChart& chart : charts) html += toSvg(chart.chart, {.width = kPie, .standalone = false});
    html += "</figure>\n";
  }
  return html.empty() ? "" : "<div class=\"grid\">\n" + html + "</div>\n";
}

std::string layers(std::span<const RunRecords> runs) {
  std::string html = pies(runs);
  for (const RunRecords& run : runs) {
    if (run.layers.empty()) continue;
    html += fmt::format("<details><summary>The {} layers of {}</summary>{}</details>\n", run.layers.size(),
                        escaped(run.name), layerTable(run));
  }
  return html.empty() ? "" : "<h2>Layers</h2>\n" + html;
}

std::string heading(std::span<const RunRecords> runs) {
  if (runs.size() > 1)
    return fmt::format("<h1>{} runs compared</h1>\n{}{}", runs.size(), "<h2>Runs</h2>\n" + runTable(runs),
                       sameWeights(runs));
  const RunFacts facts = factsOf(runs[0]);
  std::string html = fmt::format("<h1>{}</h1>\n", escaped(runs[0].name));
  if (!facts.network.empty()) {
    html += fmt::format("<p class=\"muted\">{}{}</p>\n", escaped(facts.network),
                        facts.dataset.empty() ? "" : " on " + escaped(facts.dataset));
  }
  return html + factList(facts);
}

}  // namespace

std::string reportPage(std::span<const RunRecords> runs) {
  COHORT_CHECK(!runs.empty(), "a report of no runs");
  const std::string title = runs.size() == 1 ? escaped(runs[0].name) : fmt::format("{} runs", runs.size());
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{} · Cohort "
      "report</title>\n"
      "<style>{}{}</style></head>\n<body><main{}>\n",
      title, chartStyle(), kPageStyle, runs.size() == 1 ? " class=\"one\"" : "");
  html += heading(runs);
  const std::vector<ReportChart> charts = runCharts(runs);
  html += "<h2>Training</h2>\n";
  html += charts.empty() ? "<p>No log points yet.</p>\n" : figures(charts);
  html += layers(runs) + settings(runs);
  html +=
      "<footer><p>Faint lines are the recorded values, bold ones a straight-line fit to the nearest "
      "twentieth of the run. "
      "Made by cohort report from the runs' metrics.jsonl, summary.json, layers.json and "
      "config.yaml.</p></footer>\n";
  return html + fmt::format("</main>\n<script>{}</script>\n</body></html>\n", kPageScript);
}

}  // namespace cohort
