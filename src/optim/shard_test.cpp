#include "optim/shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/philox.h"

namespace cohort {
namespace {

constexpr int kGrains = 4;

ParameterSpec weight(std::string name, std::int64_t size) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {size};
  return spec;
}

ParameterSpec statistic(std::string name, std::int64_t size, float decay) {
  ParameterSpec spec = weight(std::move(name), size);
  spec.kind = ParameterKind::RunningStatistic;
  spec.statisticDecay = decay;
  return spec;
}

// Odd sizes on purpose: vector loops have remainders everywhere.
ParameterLayout oddLayout() {
  return ParameterLayout({weight("fc2.weight", 1031), weight("fc2.bias", 1), statistic("bn.mean", 13, 0.75f),
                          weight("fc1.weight", 257), weight("fc1.bias", 7),
                          statistic("bn.variance", 13, 0.5f)});
}

std::vector<float> noise(std::size_t size, std::uint64_t seed, float scale = 1.0f) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] =
        scale *
        (2 * uniformFloat(philox(philoxKey(seed, 1), {static_cast<std::uint32_t>(i), 0, 0, 0})[0]) - 1);
  }
  return values;
}

// Every rule, with and without the things that may be added to it.
std::vector<OptimizerOptions> allRules() {
  std::vector<OptimizerOptions> all;
  for (const auto kind : {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Nesterov,
                          OptimizerKind::Adagrad, OptimizerKind::RmsProp, OptimizerKind::Adam}) {
    OptimizerOptions options;
    options.kind = kind;
    options.learningRate = 0.05;
    all.push_back(options);
    options.weightDecay = 0.03;
    options.averageDecay = 0.6;
    options.rules = {parseParamRule("bias:lr=2,decay=0")};
    all.push_back(options);
    if (hasMomentum(kind)) {
      options.momentum = 0.7;
      options.rules.push_back(parseParamRule("fc1.weight:momentum=0.3"));
      all.push_back(options);
    }
  }
  return all;
}

std::string label(const OptimizerOptions& options) {
  return std::string(optimizerName(options.kind)) + ", average " + std::to_string(options.averageDecay) +
         ", momentum " + std::to_string(momentumOf(options));
}

// The formulas of optimizer.h, one weight at a time, in double precision and without any rearrangement.
class Reference {
 public:
  std::vector<double> weights;
  std::vector<double> average;

  Reference(const ParameterLayout& layout, const OptimizerOptions& options, std::span<const float> start)
      : weights(start.begin(), start.end()),
        average(weights),
        layout_(layout),
        o_(options),
        coefficients_(parameterCoefficients(options, layout)),
        velocity_(start.size(), 0),
        square_(start.size(), options.kind == OptimizerKind::Adagrad ? options.adagradInitial : 0) {}

  void step(std::span<const float> gradient, Step step, double scheduleFactor) {
    for (std::size_t p = 0; p < coefficients_.size(); ++p) {
      const Parameter& parameter = layout_.parameters()[p];
      for (std::size_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        if (parameter.kind == ParameterKind::RunningStatistic) {
          const double d = parameter.statisticDecay;
          average[i] = weights[i] = d * weights[i] + (1 - d) * (gradient[i] / kGrains);
          continue;
        }
        const ParameterCoefficients& c = coefficients_[p];
        const double g = gradient[i] + c.decay * weights[i];
        move(i, g, o_.learningRate * scheduleFactor * c.learningRate, c.momentum,
             static_cast<double>(step + 1));
        const auto t = static_cast<double>(step + 1);
        const double d = std::min(o_.averageDecay, (1 + t) / (10 + t));
        average[i] = d * average[i] + (1 - d) * weights[i];
      }
    }
  }

 private:
  void move(std::size_t i, double g, double lr, double m, double t) {
    double& w = weights[i];
    double& v = velocity_[i];
    double& s = square_[i];
    switch (o_.kind) {
      case OptimizerKind::Sgd:
        w -= lr * g;
        break;
      case OptimizerKind::Momentum:
        v = m * v + g;
        w -= lr * v;
        break;
      case OptimizerKind::Nesterov:
        v = m * v + g;
        w -= lr * (g + m * v);
        break;
      case OptimizerKind::Adagrad:
        s += g * g;
        w -= lr * g / std::sqrt(s);
        break;
      case OptimizerKind::RmsProp:
        s = o_.rmsDecay * s + (1 - o_.rmsDecay) * g * g;
        v = m * v + lr * g / std::sqrt(s + 1e-10);
        w -= v;
        break;
      case OptimizerKind::Adam:
        v = o_.beta1 * v + (1 - o_.beta1) * g;
        s = o_.beta2 * s + (1 - o_.beta2) * g * g;
        w -= lr * (v / (1 - std::pow(o_.beta1, t))) / (std::sqrt(s / (1 - std::pow(o_.beta2, t))) + 1e-8);
        break;
    }
  }

  const ParameterLayout& layout_;
  const OptimizerOptions& o_;
  std::vector<ParameterCoefficients> coefficients_;
  std::vector<double> velocity_;
  std::vector<double> square_;
};

bool sameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(Shard, FollowsTheFormulasOfEveryRule) {
  const ParameterLayout layout = oddLayout();
  const Schedule schedule = parseSchedule("warmup:3+steps:5,0.5", {});
  for (const OptimizerOptions& options : allRules()) {
    std::vector<float> weights = noise(layout.size(), 1);
    Reference reference(layout, options, weights);
    Shard shard(layout, {.optimizer = options, .schedule = schedule, .grains = kGrains}, weights);
    for (Step step = 0; step < 12; ++step) {
      const std::vector<float> gradient = noise(layout.size(), 100 + static_cast<std::uint64_t>(step));
      shard.update(0, gradient, step);
      reference.step(gradient, step, schedule.factor(step));
    }
    const auto evaluated = shard.evaluationWeights();
    // Twelve steps of changes of about 0.1, each rounded to 2^-24 of a value of about 1.
    for (std::size_t i = 0; i < layout.size(); ++i) {
      ASSERT_NEAR(weights[i], reference.weights[i], 3e-6) << label(options) << ", weight " << i;
      const double expected = options.averageDecay > 0 ? reference.average[i] : reference.weights[i];
      ASSERT_NEAR(evaluated[i], expected, 3e-6) << label(options) << ", average " << i;
    }
  }
}

TEST(Shard, HasTheSameBitsHoweverUpdatesAreCut) {
  const ParameterLayout layout = oddLayout();
  std::mt19937 random(7);
  for (const OptimizerOptions& options : allRules()) {
    std::vector<float> whole = noise(layout.size(), 1);
    std::vector<float> cut = whole;
    Shard wholeShard(layout, {.optimizer = options, .grains = kGrains}, whole);
    Shard cutShard(layout, {.optimizer = options, .grains = kGrains}, cut);
    for (Step step = 0; step < 6; ++step) {
      const std::vector<float> gradient = noise(layout.size(), 100 + static_cast<std::uint64_t>(step));
      wholeShard.update(0, gradient, step);
      for (std::size_t at = 0; at < layout.size();) {
        const std::size_t size = std::min<std::size_t>(1 + random() % 300, layout.size() - at);
        cutShard.update(at, std::span(gradient).subspan(at, size), step);
        at += size;
      }
    }
    EXPECT_TRUE(sameBits(whole, cut)) << label(options);
    const auto wholeSlots = wholeShard.slots();
    const auto cutSlots = cutShard.slots();
    ASSERT_EQ(wholeSlots.size(), cutSlots.size());
    for (std::size_t i = 0; i < wholeSlots.size(); ++i) {
      EXPECT_TRUE(sameBits(wholeSlots[i].values, cutSlots[i].values))
          << label(options) << ' ' << wholeSlots[i].name;
    }
  }
}

TEST(Shard, OfASliceDoesWhatTheWholeDoesThere) {
  const ParameterLayout layout = oddLayout();
  for (const OptimizerOptions& options : allRules()) {
    std::vector<float> whole = noise(layout.size(), 1);
    std::vector<float> parts = whole;
    Shard shard(layout, {.optimizer = options, .grains = kGrains}, whole);
    std::vector<Shard> shards;
    const std::vector<std::size_t> borders{0, 5, 1031, 1040, 1046, 1200, layout.size()};
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      shards.emplace_back(
          layout,
          ShardOptions{.optimizer = options, .grains = kGrains, .begin = borders[i], .end = borders[i + 1]},
          std::span(parts).subspan(borders[i], borders[i + 1] - borders[i]));
    }
    for (Step step = 0; step < 5; ++step) {
      const std::vector<float> gradient = noise(layout.size(), 100 + static_cast<std::uint64_t>(step));
      shard.update(0, gradient, step);
      for (Shard& part : shards) {
        part.update(part.begin(), std::span(gradient).subspan(part.begin(), part.end() - part.begin()), step);
      }
    }
    EXPECT_TRUE(sameBits(whole, parts)) << label(options);
    for (Shard& part : shards) {
      EXPECT_TRUE(sameBits(part.evaluationWeights(),
                           shard.evaluationWeights().subspan(part.begin(), part.end() - part.begin())));
      EXPECT_EQ(part.slots().size(), shard.slots().size());
    }
  }
}

TEST(Shard, MayBeUpdatedByManyThreadsInDisjointRanges) {
  const ParameterLayout layout = oddLayout();
  OptimizerOptions options;
  options.kind = OptimizerKind::Adam;
  options.averageDecay = 0.9;
  std::vector<float> alone = noise(layout.size(), 1);
  std::vector<float> together = alone;
  Shard aloneShard(layout, {.optimizer = options}, alone);
  Shard togetherShard(layout, {.optimizer = options}, together);
  for (Step step = 0; step < 20; ++step) {
    const std::vector<float> gradient = noise(layout.size(), static_cast<std::uint64_t>(step));
    aloneShard.update(0, gradient, step);
    const std::size_t share = layout.size() / 3 + 1;
    std::vector<std::jthread> threads;  // they end before what they read
    for (std::size_t at = 0; at < layout.size(); at += share) {
      threads.emplace_back([&, at] {
        togetherShard.update(at, std::span(gradient).subspan(at, std::min(share, layout.size() - at)), step);
      });
    }
  }
  EXPECT_TRUE(sameBits(alone, together));
  EXPECT_TRUE(sameBits(aloneShard.evaluationWeights(), togetherShard.evaluationWeights()));
}

TEST(Shard, NamesItsSlots) {
  const ParameterLayout layout = oddLayout();
  std::vector<float> weights(layout.size());
  const auto names = [&](OptimizerOptions options) {
    Shard shard(layout, {.optimizer = options}, weights);
    std::string all;
    for (const Shard::Slot& slot : shard.slots()) {
      EXPECT_EQ(slot.values.size(), layout.size());
      all += slot.name + ' ';
    }
    return all;
  };
  EXPECT_EQ(names({.kind = OptimizerKind::Sgd}), "");
  EXPECT_EQ(names({.kind = OptimizerKind::Sgd, .averageDecay = 0.5}), "average ");
  EXPECT_EQ(names({.kind = OptimizerKind::Momentum}), "momentum ");
  EXPECT_EQ(names({.kind = OptimizerKind::Nesterov}), "momentum ");
  EXPECT_EQ(names({.kind = OptimizerKind::Adagrad}), "accumulator ");
  EXPECT_EQ(names({.kind = OptimizerKind::RmsProp}), "mean_square ");
  EXPECT_EQ(names({.kind = OptimizerKind::RmsProp, .momentum = 0.9}), "mean_square momentum ");
  EXPECT_EQ(names({.kind = OptimizerKind::RmsProp, .rules = {parseParamRule("fc1:momentum=0.5")}}),
            "mean_square momentum ");
  EXPECT_EQ(names({.kind = OptimizerKind::Adam, .averageDecay = 0.5}), "moment1 moment2 average ");
}

TEST(Shard, GoesOnBitIdenticallyFromSavedWeightsAndSlots) {
  const ParameterLayout layout = oddLayout();
  for (const OptimizerOptions& options : allRules()) {
    std::vector<float> weights = noise(layout.size(), 1);
    Shard shard(layout, {.optimizer = options}, weights);
    const auto step = [&](Shard& which, Step number) {
      which.update(0, noise(layout.size(), static_cast<std::uint64_t>(number)), number);
    };
    for (Step number = 0; number < 3; ++number) step(shard, number);
    std::vector<float> restored = weights;
    Shard second(layout, {.optimizer = options}, restored);
    for (std::size_t i = 0; i < shard.slots().size(); ++i) {
      std::ranges::copy(shard.slots()[i].values, second.slots()[i].values.begin());
    }
    for (Step number = 3; number < 6; ++number) {
      step(shard, number);
      step(second, number);
    }
    EXPECT_TRUE(sameBits(weights, restored)) << label(options);
    EXPECT_TRUE(sameBits(shard.evaluationWeights(), second.evaluationWeights())) << label(options);
  }
}

TEST(Shard, MovesRunningStatisticsTowardsTheMeanOfTheGrains) {
  const ParameterLayout layout({weight("w", 1), statistic("mean", 2, 0.75f)});
  std::vector<float> weights{1, 8, 0};
  OptimizerOptions options;
  options.averageDecay = 0.5;
  options.weightDecay = 0.5;
  Shard shard(layout, {.optimizer = options, .grains = 2}, weights);
  shard.update(0, std::vector<float>{0, 8, 2}, 0);  // two grains, whose means are 4 and 1
  EXPECT_EQ(weights[1], 0.75f * 8 + 0.25f * 4);
  EXPECT_EQ(weights[2], 0.25f);
  EXPECT_EQ(shard.evaluationWeights()[1], weights[1]) << "evaluation uses the current statistics";
  EXPECT_EQ(shard.evaluationWeights()[2], weights[2]);
}

TEST(Shard, AveragesWeightsWithAWarmUp) {
  const ParameterLayout layout({weight("w", 1)});
  std::vector<float> weights{4};
  OptimizerOptions options;
  options.learningRate = 1;
  options.averageDecay = 0.9999;
  Shard shard(layout, {.optimizer = options}, weights);
  EXPECT_EQ(shard.evaluationWeights()[0], 4) << "starts at the first weights";
  shard.update(0, std::vector<float>{4}, 0);  // the weight is 0 from now on
  EXPECT_NEAR(shard.evaluationWeights()[0], 4 * (2.0 / 11), 1e-6);
  shard.update(0, std::vector<float>{0}, 1);
  EXPECT_NEAR(shard.evaluationWeights()[0], 4 * (2.0 / 11) * (3.0 / 12), 1e-6);
  shard.update(0, std::vector<float>{-1}, 1000000);  // far beyond the warm-up
  EXPECT_NEAR(shard.evaluationWeights()[0], 4 * (2.0 / 11) * (3.0 / 12) * 0.9999 + 0.0001, 1e-6);
}

TEST(Shard, AverageOfAConstantWeightIsThatWeightForEver) {
  const ParameterLayout layout({weight("w", 9)});
  std::vector<float> weights = noise(9, 3);
  OptimizerOptions options;
  options.averageDecay = 0.9999;
  Shard shard(layout, {.optimizer = options}, weights);
  const std::vector<float> none(9, 0.0f);
  for (Step step = 0; step < 20000; ++step) shard.update(0, none, step);
  EXPECT_TRUE(sameBits(shard.evaluationWeights(), weights));
}

TEST(Shard, ReportsTheScheduledLearningRate) {
  const ParameterLayout layout({weight("w", 1)});
  std::vector<float> weights{0};
  OptimizerOptions options;
  options.learningRate = 0.5;
  const Shard shard(layout, {.optimizer = options, .schedule = parseSchedule("steps:10,0.1", {})}, weights);
  EXPECT_EQ(shard.learningRate(0), 0.5);
  EXPECT_DOUBLE_EQ(shard.learningRate(10), 0.05);
}

TEST(Shard, MultipliesTheLearningRateOfOneUpdateByItsFactor) {
  const ParameterLayout layout = oddLayout();
  for (const OptimizerOptions& options : allRules()) {
    OptimizerOptions slower = options;
    slower.learningRate = options.learningRate / 4;  // exact in binary
    std::vector<float> weights = noise(layout.size(), 1);
    std::vector<float> expected = weights;
    Shard shard(layout, {.optimizer = options, .grains = kGrains}, weights);
    Shard reference(layout, {.optimizer = slower, .grains = kGrains}, expected);
    shard.update(0, noise(layout.size(), 2), 0, 0.25);
    reference.update(0, noise(layout.size(), 2), 0);
    EXPECT_EQ(weights, expected) << label(options);
    const std::vector<Shard::Slot> slots = shard.slots();
    const std::vector<Shard::Slot> others = reference.slots();
    for (std::size_t i = 0; i < slots.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(slots[i].values, others[i].values)) << label(options);
  }
}

TEST(Shard, ForgetsTheFactorAfterItsUpdate) {
  const ParameterLayout layout({weight("w", 3)});
  std::vector<float> weights(3, 0.0f);
  OptimizerOptions options;
  options.learningRate = 0.5;
  Shard shard(layout, {.optimizer = options}, weights);
  const std::vector<float> ones(3, 1.0f);
  shard.update(0, ones, 0, 0.5);
  EXPECT_EQ(weights, std::vector<float>(3, -0.25f));
  shard.update(0, ones, 1);
  EXPECT_EQ(weights, std::vector<float>(3, -0.75f));
}

TEST(Shard, MovesStatisticsByTheirOwnRateWhateverTheFactor) {
  const ParameterLayout layout({statistic("mean", 2, 0.75f)});
  std::vector<float> weights(2, 8.0f);
  Shard shard(layout, {.grains = kGrains}, weights);
  shard.update(0, std::vector<float>(2, 16.0f), 0, 0.125);
  EXPECT_EQ(weights, std::vector<float>(2, 7.0f));
}

TEST(Shard, EveryRuleFindsTheMinimumOfAQuadratic) {
  const ParameterLayout layout({weight("w", 33)});
  const std::vector<float> target = noise(33, 5);
  for (OptimizerOptions options : allRules()) {
    if (options.averageDecay > 0) continue;  // those have weight decay, whose minimum lies elsewhere
    options.learningRate = options.kind == OptimizerKind::Adagrad ? 0.5 : 0.02;
    const Schedule schedule = parseSchedule("cosine:1000", {});
    std::vector<float> weights(33, 0.0f);
    std::vector<float> gradient(33);
    Shard shard(layout, {.optimizer = options, .schedule = schedule}, weights);
    for (Step step = 0; step < 1000; ++step) {
      for (std::size_t i = 0; i < 33; ++i) gradient[i] = weights[i] - target[i];
      shard.update(0, gradient, step);
    }
    for (std::size_t i = 0; i < 33; ++i) EXPECT_NEAR(weights[i], target[i], 1e-3) << label(options);
  }
}

TEST(ShardDeathTest, ChecksThatAGradientLiesInsideItsSlice) {
  const ParameterLayout layout({weight("w", 10)});
  std::vector<float> weights(5);
  Shard shard(layout, {.optimizer = {}, .begin = 5, .end = 10}, weights);
  const std::vector<float> gradient(3);
  EXPECT_DEATH(shard.update(4, gradient, 0), "outside of the shard's slice");
  EXPECT_DEATH(shard.update(8, gradient, 0), "outside of the shard's slice");
}

}  // namespace
}  // namespace cohort
