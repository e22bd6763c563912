#include "center/setup.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

// No field has its default.
CenterSetup testSetup() {
  return {.config = "network: test",
          .parameters = {{.name = "dense.weight", .shape = {37, 11}, .initializer = {}},
                         {.name = "norm.mean",
                          .shape = {23},
                          .initializer = {},
                          .kind = ParameterKind::RunningStatistic,
                          .statisticDecay = 0.9F},
                         {.name = "scale", .shape = {}, .initializer = {}}},
          .optimizer = {.kind = OptimizerKind::RmsProp,
                        .learningRate = 0.045,
                        .momentum = 0.8,
                        .weightDecay = 0.002,
                        .weightDecayFilter = "weight",
                        .beta1 = 0.85,
                        .beta2 = 0.98,
                        .epsilon = 1.0,
                        .rmsDecay = 0.95,
                        .adagradInitial = 0.2,
                        .averageDecay = 0.9999,
                        .rules = {{.pattern = "scale", .lr = 2, .momentum = 0.5, .decay = 0.25},
                                  {.pattern = "dense", .lr = 0.5, .momentum = {}, .decay = 3}}},
          .schedule = "exponential:5,0.9",
          .epoch = {.samples = 1000, .batch = 10},
          .grains = 6,
          .target = 12345678901,
          .rule = {.name = "backup", .staleness = 3, .backups = 2, .members = 7, .scaleRate = true},
          .step = 9876543210,
          .opening = 0xfedcba9876543210U};
}

TEST(SetupOnTheWire, KeepsEveryField) {
  const CenterSetup setup = testSetup();
  const CenterSetup read = fromWire(toWire(setup));
  EXPECT_EQ(read.config, setup.config);
  EXPECT_EQ(read.parameters, setup.parameters);
  EXPECT_EQ(read.optimizer, setup.optimizer);
  EXPECT_EQ(read.schedule, setup.schedule);
  EXPECT_EQ(read.epoch.samples, setup.epoch.samples);
  EXPECT_EQ(read.epoch.batch, setup.epoch.batch);
  EXPECT_EQ(read.grains, setup.grains);
  EXPECT_EQ(read.target, setup.target);
  EXPECT_EQ(read.rule.name, setup.rule.name);
  EXPECT_EQ(read.rule.staleness, setup.rule.staleness);
  EXPECT_EQ(read.rule.backups, setup.rule.backups);
  EXPECT_EQ(read.rule.members, setup.rule.members);
  EXPECT_EQ(read.rule.scaleRate, setup.rule.scaleRate);
  EXPECT_EQ(read.step, setup.step);
  EXPECT_EQ(read.opening, setup.opening);
  EXPECT_EQ(toWire(read).SerializeAsString(), toWire(setup).SerializeAsString());
}

TEST(SetupOnTheWire, KeepsWhatIsNotSet) {
  CenterSetup setup = testSetup();
  setup.optimizer = {.kind = OptimizerKind::Adam};
  EXPECT_EQ(fromWire(toWire(setup)).optimizer, setup.optimizer);
}

struct Refusal {
  const char* name;
  std::function<void(wire::Setup&)> change;
  const char* sentence;
};

class SetupOnTheWireWith : public testing::TestWithParam<Refusal> {};

TEST_P(SetupOnTheWireWith, IsRefused) {
  wire::Setup message = toWire(testSetup());
  GetParam().change(message);
  EXPECT_MENTIONS(errorOf<UsageError>([&] { fromWire(message); }), GetParam().sentence);
}

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr const char* kNumbers = "numbers of a rule do not fit";

const std::vector<Refusal> kRefusals = {
    {"NoParameters", [](wire::Setup& s) { s.clear_parameters(); }, "at least one parameter"},
    {"AShapeOfZero", [](wire::Setup& s) { s.mutable_parameters(0)->set_shape(1, 0); }, "no possible shape"},
    {"ANegativeShape", [](wire::Setup& s) { s.mutable_parameters(0)->set_shape(0, -5); },
     "no possible shape"},
    {"AShapeThatOverflows",
     [](wire::Setup& s) {
       s.mutable_parameters(0)->set_shape(0, std::int64_t{1} << 32);
       s.mutable_parameters(0)->set_shape(1, std::int64_t{1} << 32);
     },
     "no possible shape"},
    {"AHugeShape", [](wire::Setup& s) { s.mutable_parameters(0)->set_shape(0, kHuge); }, "no possible shape"},
    {"ShapesThatOverflowTogether",
     [](wire::Setup& s) {
       for (int i = 0; i < 2; ++i) {
         s.mutable_parameters(i)->clear_shape();
         s.mutable_parameters(i)->add_shape(std::int64_t{3} << 38);
       }
     },
     "too many"},
    {"TwoParametersOfOneName", [](wire::Setup& s) { s.mutable_parameters(2)->set_name("norm.mean"); },
     "one name"},
    {"AnUnknownRule", [](wire::Setup& s) { s.set_rule("anarchy"); }, "'anarchy'"},
    {"AnUnknownOptimizer", [](wire::Setup& s) { s.mutable_optimizer()->set_name("lion"); }, "'lion'"},
    {"AnOptimizerOutOfRange", [](wire::Setup& s) { s.mutable_optimizer()->set_learning_rate(-1); },
     "learning rate"},
    {"NoOptimizer", [](wire::Setup& s) { s.clear_optimizer(); }, "optimizer ''"},
    {"ARuleOutOfRange", [](wire::Setup& s) { s.mutable_optimizer()->mutable_rules(0)->set_lr(-2); }, "lr"},
    {"AnUnknownSchedule", [](wire::Setup& s) { s.set_schedule("tomorrow"); }, "'tomorrow'"},
    {"NoSamples", [](wire::Setup& s) { s.set_samples(0); }, "no length"},
    {"ANegativeBatch", [](wire::Setup& s) { s.set_batch(-1); }, "no length"},
    {"NoGrains", [](wire::Setup& s) { s.set_grains(0); }, kNumbers},
    {"NegativeGrains", [](wire::Setup& s) { s.set_grains(-1); }, kNumbers},
    {"TooManyGrains", [](wire::Setup& s) { s.set_grains(std::numeric_limits<int>::max()); }, kNumbers},
    {"ANegativeTarget", [](wire::Setup& s) { s.set_target(-1); }, kNumbers},
    {"ANegativeStep", [](wire::Setup& s) { s.set_step(-1); }, kNumbers},
    {"AStepThatCannotBeCountedOn", [](wire::Setup& s) { s.set_step(kHuge); }, kNumbers},
    {"ATargetThatCannotBeReached", [](wire::Setup& s) { s.set_target(kHuge - 1); }, kNumbers},
    {"APatternThatIsTooLong",
     [](wire::Setup& s) { s.mutable_optimizer()->add_rules()->set_pattern(std::string(1001, 'a')); },
     "too long"},
    {"ANameThatIsTooLong", [](wire::Setup& s) { s.mutable_parameters(0)->set_name(std::string(1001, 'a')); },
     "too long"},
    {"ANegativeStaleness", [](wire::Setup& s) { s.set_staleness(-1); }, kNumbers},
    {"NegativeBackups", [](wire::Setup& s) { s.set_backups(-1); }, kNumbers},
    {"NoMembers", [](wire::Setup& s) { s.set_members(0); }, kNumbers},
    {"AsManyBackupsAsMembers", [](wire::Setup& s) { s.set_backups(7); }, kNumbers}};

INSTANTIATE_TEST_SUITE_P(Each, SetupOnTheWireWith, testing::ValuesIn(kRefusals),
                         [](const auto& refusal) { return refusal.param.name; });

TEST(SetupOnTheWire, MayHaveNoTarget) {
  CenterSetup setup = testSetup();
  setup.target = kNoTarget;
  EXPECT_FALSE(toWire(setup).has_target());
  EXPECT_EQ(fromWire(toWire(setup)).target, kNoTarget);
}

TEST(SetupOnTheWire, KeepsLosses) {
  const LossSum read = fromWire(toWire(LossSum{.loss = -1.5, .samples = 7, .top1 = 3, .top5 = 5}));
  EXPECT_EQ(read.loss, -1.5);
  EXPECT_EQ(read.samples, 7);
  EXPECT_EQ(read.top1, 3);
  EXPECT_EQ(read.top5, 5);
}

TEST(SliceOfServer, TilesTheArenaEvenly) {
  for (const std::size_t size : {1U, 7U, 8U, 1000U}) {
    for (const int servers : {1, 2, 3, 7}) {
      std::size_t next = 0;
      for (int server = 0; server < servers; ++server) {
        const ArenaRange slice = sliceOfServer(size, server, servers);
        EXPECT_EQ(slice.begin, next);
        EXPECT_LE(slice.size(), size / static_cast<std::size_t>(servers) + 1);
        EXPECT_GE(slice.size(), size / static_cast<std::size_t>(servers));
        next = slice.end;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(CenterRule, SaysWhenAGradientBecomesAnUpdate) {
  EXPECT_EQ(acceptanceOf({.name = "bsp"}), Acceptance::WhenComplete);
  EXPECT_EQ(acceptanceOf({.name = "backup"}), Acceptance::OnCommit);
  EXPECT_EQ(acceptanceOf({.name = "async"}), Acceptance::AtOnce);
  EXPECT_EQ(acceptanceOf({.name = "ssp"}), Acceptance::AtOnce);
}

}  // namespace
}  // namespace cohort
