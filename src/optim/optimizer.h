// The update rules and their options. With w a weight, g the gradient of the step's loss, lr the learning
// rate (base * schedule * the parameter's multiplier), m its momentum, and t = step + 1:
//
//   every rule   g' = g + decay * w                                    (L2, coupled with the rule)
//   sgd          w -= lr * g'
//   momentum     v = m * v + g';                  w -= lr * v
//   nesterov     v = m * v + g';                  w -= lr * (g' + m * v)
//   adagrad      a = a + g'^2;                    w -= lr * g' / sqrt(a)   (a starts at adagradInitial)
//   rmsprop      s = d * s + (1 - d) * g'^2;      v = m * v + lr * g' / sqrt(s + epsilon);   w -= v
//   adam         p = b1 * p + (1 - b1) * g';      q = b2 * q + (1 - b2) * g'^2
//                w -= lr * (p / (1 - b1^t)) / (sqrt(q / (1 - b2^t)) + epsilon)
//
//   average      a = d * a + (1 - d) * w after the update, with d = min(averageDecay, (1 + t) / (10 + t)),
//                so that a short run is not dominated by its start; a starts at the first weights
//
// Everything here is a plain value; the functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/parameter.h"

namespace cohort {

enum class OptimizerKind { Sgd, Momentum, Nesterov, Adagrad, RmsProp, Adam };

// sgd | momentum | nesterov | adagrad | rmsprop | adam; anything else is a UsageError.
OptimizerKind parseOptimizer(std::string_view name);
std::string_view optimizerName(OptimizerKind kind);
bool hasMomentum(OptimizerKind kind);  // momentum, nesterov, rmsprop

// What differs for the parameters whose name a pattern matches.
struct ParamRule {
  std::string pattern{};  // a parameter's exact name, or a regular expression found anywhere in its name
  double lr = 1;          // multiplies the learning rate
  std::optional<double> momentum{};  // instead of the optimizer's
  double decay = 1;                  // multiplies the weight decay

  bool operator==(const ParamRule&) const = default;
};

// 'REGEX:lr=2,momentum=0.5,decay=0', cut at the last colon. Throws UsageError for a bad regular expression,
// an unknown key or a bad number.
ParamRule parseParamRule(std::string_view text);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  double learningRate = 0.01;
  std::optional<double> momentum{};  // unset: 0.9 for momentum and nesterov, 0 for rmsprop
  double weightDecay = 0;
  std::string weightDecayFilter{};  // ECMAScript, found anywhere in a name; empty: all weights decay
  double beta1 = 0.9;               // adam
  double beta2 = 0.999;             // adam
  std::optional<double> epsilon{};  // unset: 1e-8 for adam, 1e-10 for rmsprop
  double rmsDecay = 0.9;            // rmsprop
  double adagradInitial = 0.1;      // adagrad
  double averageDecay = 0;          // 0: no moving average
  std::vector<ParamRule> rules{};   // an exact name first, otherwise the first that matches

  bool operator==(const OptimizerOptions&) const = default;
};

double momentumOf(const OptimizerOptions& options);  // with the rule's default
double epsilonOf(const OptimizerOptions& options);   // with the rule's default

// Throws UsageError for a value outside its range, or a momentum for a rule that has none.
void validate(const OptimizerOptions& options);

// What the options come to for one parameter; statistics have zeros.
struct ParameterCoefficients {
  double learningRate = 0;  // multiplier
  double momentum = 0;
  double decay = 0;  // absolute
};

// One per parameter of the layout, in its order. Throws UsageError as validate does, and for a pattern that
// matches no weight of the layout.
std::vector<ParameterCoefficients> parameterCoefficients(const OptimizerOptions& options,
                                                         const ParameterLayout& layout);

}  // namespace cohort
