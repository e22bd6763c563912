#include "optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace cohort {
namespace {

// In the order of OptimizerKind.
constexpr std::array<std::string_view, 6> kNames{"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"};

void require(bool condition, std::string_view what, std::string_view range, double value) {
  if (!condition) throw UsageError(fmt::format("The {} must be {}, but it is {}.", what, range, value));
}

bool isFraction(double value) {
  return value >= 0 && value < 1;
}

bool isFromZero(double value) {
  return std::isfinite(value) && value >= 0;
}

void refuseMomentum(OptimizerKind kind, std::string_view where) {
  throw UsageError(fmt::format(
      "The optimizer {} has no momentum{}; leave the momentum out, or use momentum, nesterov or rmsprop.",
      optimizerName(kind), where));
}

void validate(const ParamRule& rule, OptimizerKind kind) {
  const std::string of = fmt::format(" of the parameter rule '{}'", rule.pattern);
  require(isFromZero(rule.lr), "lr" + of, "finite and not negative", rule.lr);
  require(isFromZero(rule.decay), "decay" + of, "finite and not negative", rule.decay);
  if (!rule.momentum) return;
  require(isFraction(*rule.momentum), "momentum" + of, "at least 0 and less than 1", *rule.momentum);
  if (!hasMomentum(kind))
    refuseMomentum(kind, fmt::format(", but the parameter rule '{}' sets one", rule.pattern));
}

}  // namespace

OptimizerKind parseOptimizer(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw UsageError(
        fmt::format("The optimizer '{}' is not known; use one of {}.", name, fmt::join(kNames, ", ")));
  }
  return static_cast<OptimizerKind>(found - kNames.begin());
}

std::string_view optimizerName(OptimizerKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

bool hasMomentum(OptimizerKind kind) {
  return kind == OptimizerKind::Momentum || kind == OptimizerKind::Nesterov || kind == OptimizerKind::RmsProp;
}

double momentumOf(const OptimizerOptions& options) {
  const bool always = options.kind == OptimizerKind::Momentum || options.kind == OptimizerKind::Nesterov;
  return options.momentum.value_or(always ? 0.9 : 0.0);
}

double epsilonOf(const OptimizerOptions& options) {
  return options.epsilon.value_or(options.kind == OptimizerKind::RmsProp ? 1e-10 : 1e-8);
}

void validate(const OptimizerOptions& options) {
  constexpr std::string_view kFraction = "at least 0 and less than 1";
  require(isFromZero(options.learningRate), "learning rate", "finite and not negative", options.learningRate);
  require(isFromZero(options.weightDecay), "weight decay", "finite and not negative", options.weightDecay);
  require(isFraction(momentumOf(options)), "momentum", kFraction, momentumOf(options));
  if (options.momentum && !hasMomentum(options.kind)) refuseMomentum(options.kind, "");
  require(isFraction(options.beta1), "beta1", kFraction, options.beta1);
  require(isFraction(options.beta2), "beta2", kFraction, options.beta2);
  require(isFraction(options.rmsDecay), "RMSProp decay", kFraction, options.rmsDecay);
  require(isFraction(options.averageDecay), "decay of the moving average", kFraction, options.averageDecay);
  // Zero would divide zero by zero where a gradient is zero; what a float cannot hold is zero.
  const auto isPositiveFloat = [](double value) {
    return std::isfinite(value) && static_cast<float>(value) > 0;
  };
  require(isPositiveFloat(epsilonOf(options)), "epsilon", "greater than 0", epsilonOf(options));
  require(isPositiveFloat(options.adagradInitial), "initial Adagrad accumulator", "greater than 0",
          options.adagradInitial);
  for (const ParamRule& rule : options.rules) validate(rule, options.kind);
}

}  // namespace cohort
