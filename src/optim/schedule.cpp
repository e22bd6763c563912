#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/error.h"
#include "optim/parse.h"
#include "optim/power.h"

namespace cohort {
namespace {

constexpr std::string_view kForms =
    "constant, steps:EVERY,FACTOR, exponential:DECAY_STEPS,RATE, piecewise:EPOCH=FACTOR,…, "
    "cosine:TOTAL_STEPS[,FINAL], "
    "each of them also after warmup:STEPS+";
constexpr std::string_view kWarmup = "warmup:";

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw UsageError(fmt::format("The schedule '{}' {}. Known schedules are: {}.", text, why, kForms));
}

// cos(pi * x) for x in [0, 1] by its Taylor series: the library's cosine may differ in its last bit between
// machines with and without fused multiply-adds.
double cosinePi(double x) {
  if (x > 0.5) return -cosinePi(1 - x);
  const double square = (std::numbers::pi * x) * (std::numbers::pi * x);
  constexpr int kTerms = 11;  // the first one left out is below 1e-17 at pi / 2
  double sum = 1;
  for (int k = kTerms; k >= 1; --k) sum = 1 - square / ((2.0 * k - 1) * (2.0 * k)) * sum;
  return sum;
}

// The first step that lies in `epoch` or later.
Step firstStepOf(double epoch, EpochSize size) {
  constexpr double kNever = 9e15;          // exact as a double
  constexpr double kRounding = 1 - 1e-12;  // a product a hair above a whole number means that number
  const double exact = epoch * static_cast<double>(size.samples) / static_cast<double>(size.batch);
  return static_cast<Step>(std::min(std::ceil(exact * kRounding), kNever));
}

}  // namespace

double Schedule::factor(Step step) const {
  const double rest = factorWithoutWarmup(step);
  if (step >= warmup_) return rest;
  return rest * (static_cast<double>(step + 1) / static_cast<double>(warmup_));
}

double Schedule::factorWithoutWarmup(Step step) const {
  switch (form_) {
    case Form::Constant:
      return 1;
    case Form::Staircase:
      return power(rate_, step / length_);
    case Form::Piecewise: {
      const auto after = std::ranges::upper_bound(changes_, step, {}, &Change::from);
      return after == changes_.begin() ? 1 : std::prev(after)->factor;
    }
    case Form::Cosine: {
      const double done = static_cast<double>(std::min(step, length_)) / static_cast<double>(length_);
      return rate_ + (1 - rate_) * 0.5 * (1 + cosinePi(done));
    }
  }
  return 1;
}

void Schedule::parsePiecewise(std::string_view arguments, EpochSize epoch) {
  COHORT_CHECK(epoch.samples > 0 && epoch.batch > 0, "a piecewise schedule needs the size of an epoch");
  double previous = -1;
  for (const std::string_view item : parse::split(arguments, ',')) {
    const std::vector<std::string_view> sides = parse::split(item, '=');
    if (sides.size() != 2) refuse(text_, fmt::format("has '{}' where EPOCH=FACTOR is expected", item));
    const double from = parse::numberFromZero(sides[0], fmt::format("An epoch of the schedule '{}'", text_));
    if (from <= previous) refuse(text_, "must name its epochs in increasing order");
    previous = from;
    changes_.push_back(
        {firstStepOf(from, epoch),
         parse::numberFromZero(sides[1], fmt::format("A factor of the schedule '{}'", text_))});
  }
}

void Schedule::parseForm(std::string_view form, EpochSize epoch) {
  const std::size_t colon = form.find(':');
  const std::string_view name = parse::trimmed(form.substr(0, colon));
  const bool bare = colon == std::string_view::npos;
  if (name == "constant" && bare) return;
  if (bare)
    refuse(text_, name == "steps" || name == "exponential" || name == "piecewise" || name == "cosine"
                      ? "lacks its numbers"
                      : "is not known");
  const std::string_view arguments = form.substr(colon + 1);
  if (name == "piecewise") {
    form_ = Form::Piecewise;
    return parsePiecewise(arguments, epoch);
  }
  const std::vector<std::string_view> items = parse::split(arguments, ',');
  if (name == "steps" || name == "exponential") {
    if (items.size() != 2) refuse(text_, "needs two numbers");
    form_ = Form::Staircase;
  } else if (name == "cosine") {
    if (items.size() > 2) refuse(text_, "has too many numbers");
    form_ = Form::Cosine;
    rate_ = 0;
  } else {
    refuse(text_, "is not known");
  }
  length_ = parse::positiveCount(items[0], fmt::format("The number of steps in the schedule '{}'", text_));
  if (items.size() == 2) {
    rate_ = parse::numberFromZero(items[1], fmt::format("The factor in the schedule '{}'", text_));
  }
}

Schedule parseSchedule(std::string_view text, EpochSize epoch) {
  Schedule schedule;
  schedule.text_ = text;
  std::string_view form = parse::trimmed(text);
  if (form.starts_with(kWarmup)) {
    form.remove_prefix(kWarmup.size());
    const std::size_t plus = form.find('+');
    schedule.warmup_ =
        parse::positiveCount(form.substr(0, plus), fmt::format("The warm-up in the schedule '{}'", text));
    form = plus == std::string_view::npos ? "constant" : parse::trimmed(form.substr(plus + 1));
  }
  schedule.parseForm(form, epoch);
  return schedule;
}

}  // namespace cohort
