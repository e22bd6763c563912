#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

ParameterSpec weight(std::string name) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {4};
  return spec;
}

ParameterLayout layout() {
  ParameterSpec mean = weight("bn1.mean");
  mean.kind = ParameterKind::RunningStatistic;
  mean.statisticDecay = 0.9f;
  return ParameterLayout(
      {weight("fc2.weight"), weight("fc2.bias"), weight("fc1.weight"), weight("fc1.bias"), mean});
}

OptimizerOptions withRules(std::vector<std::string_view> texts) {
  OptimizerOptions options;
  options.kind = OptimizerKind::Momentum;
  options.weightDecay = 0.5;
  for (const std::string_view text : texts) options.rules.push_back(parseParamRule(text));
  return options;
}

TEST(OptimizerName, IsReadAndWritten) {
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"}) {
    EXPECT_EQ(optimizerName(parseOptimizer(name)), name);
  }
  EXPECT_EQ(parseOptimizer("adam"), OptimizerKind::Adam);
  EXPECT_EQ(
      errorOf<UsageError>([] { parseOptimizer("adamw"); }),
      "The optimizer 'adamw' is not known; use one of sgd, momentum, nesterov, adagrad, rmsprop, adam.");
}

TEST(OptimizerOptions, HaveDefaultsPerRule) {
  OptimizerOptions options;
  options.kind = OptimizerKind::Nesterov;
  EXPECT_EQ(momentumOf(options), 0.9);
  options.kind = OptimizerKind::RmsProp;
  EXPECT_EQ(momentumOf(options), 0);
  EXPECT_EQ(epsilonOf(options), 1e-10);
  options.kind = OptimizerKind::Adam;
  EXPECT_EQ(epsilonOf(options), 1e-8);
  options.epsilon = 0.1;
  EXPECT_EQ(epsilonOf(options), 0.1);
}

TEST(OptimizerOptions, RefuseValuesOutsideTheirRange) {
  const auto refused = [](auto change) {
    OptimizerOptions options;
    options.kind = OptimizerKind::RmsProp;
    validate(options);
    change(options);
    return errorOf<UsageError>([&] { validate(options); });
  };
  EXPECT_EQ(refused([](auto& o) { o.learningRate = -1; }),
            "The learning rate must be finite and not negative, but it is -1.");
  EXPECT_NE(refused([](auto& o) { o.weightDecay = -1e-4; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.momentum = 1; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.beta1 = 1; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.beta2 = -0.1; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.rmsDecay = 2; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.averageDecay = 1; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.epsilon = 0; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.epsilon = 1e-60; }), "no error");
  EXPECT_NE(refused([](auto& o) { o.adagradInitial = 0; }), "no error");
}

TEST(OptimizerOptions, RefuseAMomentumThatWouldHaveNoEffect) {
  OptimizerOptions options;
  options.kind = OptimizerKind::Adam;
  options.momentum = 0.9;
  EXPECT_EQ(
      errorOf<UsageError>([&] { validate(options); }),
      "The optimizer adam has no momentum; leave the momentum out, or use momentum, nesterov or rmsprop.");
  options.momentum.reset();
  options.rules = {parseParamRule("fc:momentum=0.5")};
  EXPECT_MENTIONS(errorOf<UsageError>([&] { validate(options); }), "the parameter rule 'fc' sets one");
}

TEST(ParamRule, IsCutAtTheLastColon) {
  const ParamRule rule = parseParamRule("(?:fc|conv).*bias:lr=2, decay=0,momentum=0.5");
  EXPECT_EQ(rule.pattern, "(?:fc|conv).*bias");
  EXPECT_EQ(rule.lr, 2);
  EXPECT_EQ(rule.decay, 0);
  EXPECT_EQ(rule.momentum, 0.5);
  EXPECT_EQ(parseParamRule("a:lr=3").momentum, std::nullopt);
  EXPECT_EQ(parseParamRule("a:lr=3").decay, 1);
}

TEST(ParamRule, RefusesWithASentence) {
  const auto refused = [](std::string_view text) {
    return errorOf<UsageError>([=] { parseParamRule(text); });
  };
  EXPECT_EQ(
      refused("fc:rate=2"),
      "The parameter rule 'fc:rate=2' has the unknown key 'rate'; known keys are lr, momentum and decay.");
  EXPECT_MENTIONS(refused("fc(:lr=2"), "'fc(' is not a regular expression");
  EXPECT_EQ(refused("fc:lr=two"),
            "The lr in the parameter rule 'fc:lr=two' must be a number, but it is 'two'.");
  for (const char* text : {"fc", ":lr=2", "", "fc:", "fc:lr", "fc:lr=", "fc:lr=-1", "fc:decay=-1",
                           "fc:momentum=1", "fc:lr=1,lr=2", "fc:lr=1,"}) {
    EXPECT_NE(refused(text), "no error") << text;
  }
}

TEST(ParameterCoefficients, AreTheOptionsWhereNoRuleMatches) {
  const auto all = parameterCoefficients(withRules({}), layout());
  ASSERT_EQ(all.size(), 5u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(all[static_cast<std::size_t>(i)].learningRate, 1);
    EXPECT_EQ(all[static_cast<std::size_t>(i)].momentum, 0.9);
    EXPECT_EQ(all[static_cast<std::size_t>(i)].decay, 0.5);
  }
  EXPECT_EQ(all[4].decay, 0) << "statistics do not decay";
}

TEST(ParameterCoefficients, ComeFromTheFirstMatchingRule) {
  const auto all =
      parameterCoefficients(withRules({"bias$:lr=2,decay=0", "fc1:lr=3,momentum=0.25,decay=4"}), layout());
  EXPECT_EQ(all[0].learningRate, 1);
  EXPECT_EQ(all[1].learningRate, 2);
  EXPECT_EQ(all[1].decay, 0);
  EXPECT_EQ(all[2].learningRate, 3);
  EXPECT_EQ(all[2].momentum, 0.25);
  EXPECT_EQ(all[2].decay, 2);
  EXPECT_EQ(all[3].learningRate, 2) << "fc1.bias: 'bias$' stands first";
  EXPECT_EQ(all[3].momentum, 0.9);
}

TEST(ParameterCoefficients, PreferAnExactNameToEarlierExpressions) {
  const auto all = parameterCoefficients(withRules({".*:lr=2", "fc1.bias:lr=7"}), layout());
  EXPECT_EQ(all[2].learningRate, 2);
  EXPECT_EQ(all[3].learningRate, 7);
}

TEST(ParameterCoefficients, DecayOnlyWhatTheFilterNames) {
  OptimizerOptions options = withRules({"fc1:decay=0.5"});
  options.weightDecayFilter = "weight$";
  const auto all = parameterCoefficients(options, layout());
  EXPECT_EQ(all[0].decay, 0.5);
  EXPECT_EQ(all[1].decay, 0);
  EXPECT_EQ(all[2].decay, 0.25);
  EXPECT_EQ(all[3].decay, 0);
}

TEST(ParameterCoefficients, RefusePatternsThatMatchNothing) {
  EXPECT_EQ(errorOf<UsageError>([] { parameterCoefficients(withRules({"conv:lr=2"}), layout()); }),
            "The pattern of the parameter rule 'conv' matches no parameter of the network, which has "
            "fc2.weight, fc2.bias, "
            "fc1.weight, fc1.bias.");
  OptimizerOptions options = withRules({});
  options.weightDecayFilter = "kernel";
  EXPECT_MENTIONS(errorOf<UsageError>([&] { parameterCoefficients(options, layout()); }),
                  "weight-decay filter 'kernel'");
  options.weightDecay = 0;
  EXPECT_EQ(errorOf<UsageError>([&] { parameterCoefficients(options, layout()); }), "no error")
      << "nothing decays anyway";
  options.weightDecayFilter = "[";
  EXPECT_MENTIONS(errorOf<UsageError>([&] { parameterCoefficients(options, layout()); }),
                  "not a regular expression");
}

}  // namespace
}  // namespace cohort
