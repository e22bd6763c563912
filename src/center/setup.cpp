#include "center/setup.h"

#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "center/rules.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

// Far above any network.
constexpr int kMostParameters = 1'000'000;
constexpr std::int64_t kMostFloats = std::int64_t{1} << 40;
constexpr int kMostGrains = 10'000'000;
constexpr Step kMostSteps = Step{1} << 53;
// Patterns are searched in names, by a library that recurses with their length.
constexpr std::size_t kLongestText = 1000;

void requireShort(std::string_view text) {
  if (text.size() > kLongestText) throw UsageError("a name or pattern of a run is too long");
}

wire::Optimizer toWire(const OptimizerOptions& options) {
  wire::Optimizer message;
  message.set_name(std::string(optimizerName(options.kind)));
  message.set_learning_rate(options.learningRate);
  if (options.momentum) message.set_momentum(*options.momentum);
  message.set_weight_decay(options.weightDecay);
  message.set_weight_decay_filter(options.weightDecayFilter);
  message.set_beta1(options.beta1);
  message.set_beta2(options.beta2);
  if (options.epsilon) message.set_epsilon(*options.epsilon);
  message.set_rms_decay(options.rmsDecay);
  message.set_adagrad_initial(options.adagradInitial);
  message.set_average_decay(options.averageDecay);
  for (const ParamRule& rule : options.rules) {
    wire::ParamRule& added = *message.add_rules();
    added.set_pattern(rule.pattern);
    added.set_lr(rule.lr);
    if (rule.momentum) added.set_momentum(*rule.momentum);
    added.set_decay(rule.decay);
  }
  return message;
}

OptimizerOptions fromWire(const wire::Optimizer& message) {
  OptimizerOptions options{.kind = parseOptimizer(message.name()),
                           .learningRate = message.learning_rate(),
                           .weightDecay = message.weight_decay(),
                           .weightDecayFilter = message.weight_decay_filter(),
                           .beta1 = message.beta1(),
                           .beta2 = message.beta2(),
                           .rmsDecay = message.rms_decay(),
                           .adagradInitial = message.adagrad_initial(),
                           .averageDecay = message.average_decay()};
  if (message.has_momentum()) options.momentum = message.momentum();
  if (message.has_epsilon()) options.epsilon = message.epsilon();
  requireShort(options.weightDecayFilter);
  for (const wire::ParamRule& rule : message.rules()) {
    requireShort(rule.pattern());
    ParamRule& added = options.rules.emplace_back(
        ParamRule{.pattern = rule.pattern(), .lr = rule.lr(), .momentum = {}, .decay = rule.decay()});
    if (rule.has_momentum()) added.momentum = rule.momentum();
  }
  validate(options);
  return options;
}

ParameterSpec fromWire(const wire::Parameter& message, std::int64_t& floats) {
  ParameterSpec spec{.name = message.name(),
                     .shape = {message.shape().begin(), message.shape().end()},
                     .initializer = {},
                     .kind = message.is_statistic() ? ParameterKind::RunningStatistic : ParameterKind::Weight,
                     .statisticDecay = message.statistic_decay()};
  requireShort(spec.name);
  std::int64_t count = 1;
  for (const std::int64_t extent : spec.shape) {
    if (extent < 1 || extent > kMostFloats / count) throw UsageError("a parameter has no possible shape");
    count *= extent;
  }
  floats += count;
  if (floats > kMostFloats) throw UsageError("the parameters are too many");
  return spec;
}

CenterMoment fromWire(const wire::Moment& message) {
  constexpr int kMostServers = 100'000;
  if (message.servers_size() > kMostServers) throw UsageError("a run never had as many servers");
  CenterMoment moment{.opening = message.opening()};
  for (const wire::ServerVersion& server : message.servers()) {
    if (server.version() < 0 || server.version() > kMostSteps) throw UsageError("a run has no such version");
    moment.servers.push_back({server.life(), server.version()});
  }
  return moment;
}

void requireRule(const CenterSetup& setup) {
  const CenterRule& rule = setup.rule;
  kindOf(rule);
  const bool fits = rule.staleness >= 0 && rule.backups >= 0 && rule.members >= 1 &&
                    (rule.backups == 0 || rule.backups < rule.members) && setup.grains >= 1 &&
                    setup.grains <= kMostGrains && setup.target >= 0 &&
                    (setup.target <= kMostSteps || setup.target == kNoTarget) && setup.step >= 0 &&
                    setup.step <= kMostSteps;
  if (!fits) throw UsageError("the numbers of a rule do not fit each other");
}

}  // namespace

wire::Setup toWire(const CenterSetup& setup) {
  wire::Setup message;
  message.set_config(setup.config);
  for (const ParameterSpec& spec : setup.parameters) {
    wire::Parameter& added = *message.add_parameters();
    added.set_name(spec.name);
    for (const std::int64_t extent : spec.shape) added.add_shape(extent);
    added.set_is_statistic(spec.kind == ParameterKind::RunningStatistic);
    added.set_statistic_decay(spec.statisticDecay);
  }
  *message.mutable_optimizer() = toWire(setup.optimizer);
  message.set_schedule(setup.schedule);
  message.set_samples(setup.epoch.samples);
  message.set_batch(setup.epoch.batch);
  message.set_grains(setup.grains);
  if (setup.target != kNoTarget) message.set_target(setup.target);
  message.set_rule(setup.rule.name);
  message.set_staleness(setup.rule.staleness);
  message.set_backups(setup.rule.backups);
  message.set_members(setup.rule.members);
  message.set_scale_rate(setup.rule.scaleRate);
  message.set_has_own_weights(setup.rule.hasOwnWeights);
  message.set_seed(setup.rule.seed);
  message.set_step(setup.step);
  message.set_opening(setup.opening);
  if (setup.origin.isKnown()) {
    message.mutable_origin()->set_opening(setup.origin.opening);
    for (const ServerVersion& server : setup.origin.servers)
      *message.mutable_origin()->add_servers() = toWire(server);
  }
  message.set_weights_hash(setup.weightsHash);
  return message;
}

CenterSetup fromWire(const wire::Setup& message) {
  CenterSetup setup{.config = message.config(),
                    .parameters = {},
                    .optimizer = fromWire(message.optimizer()),
                    .schedule = message.schedule(),
                    .epoch = {.samples = message.samples(), .batch = message.batch()},
                    .grains = message.grains(),
                    .target = message.has_target() ? message.target() : kNoTarget,
                    .rule = {.name = message.rule(),
                             .staleness = message.staleness(),
                             .backups = message.backups(),
                             .members = message.members(),
                             .scaleRate = message.scale_rate(),
                             .hasOwnWeights = message.has_own_weights(),
                             .seed = message.seed()},
                    .step = message.step(),
                    .opening = message.opening(),
                    .origin = fromWire(message.origin()),
                    .weightsHash = message.weights_hash()};
  requireShort(setup.weightsHash);
  if (message.parameters_size() < 1 || message.parameters_size() > kMostParameters)
    throw UsageError("a run has at least one parameter, and not millions");
  if (setup.epoch.samples < 1 || setup.epoch.batch < 1) throw UsageError("an epoch has no length");
  std::int64_t floats = 0;
  for (const wire::Parameter& parameter : message.parameters())
    setup.parameters.push_back(fromWire(parameter, floats));
  std::set<std::string_view> names;
  for (const ParameterSpec& spec : setup.parameters) {
    if (!names.insert(spec.name).second) throw UsageError("two parameters have one name");
  }
  requireRule(setup);
  parseSchedule(setup.schedule, setup.epoch);
  return setup;
}

Work fromWire(const wire::Work& message) {
  return {message.step(), {message.first(), message.last()}};
}

wire::ServerVersion toWire(const ServerVersion& version) {
  wire::ServerVersion message;
  message.set_life(version.life);
  message.set_version(version.version);
  return message;
}

wire::Loss toWire(const LossSum& loss) {
  wire::Loss message;
  message.set_loss(loss.loss);
  message.set_samples(loss.samples);
  message.set_top1(loss.top1);
  message.set_top5(loss.top5);
  return message;
}

LossSum fromWire(const wire::Loss& message) {
  return {
      .loss = message.loss(), .samples = message.samples(), .top1 = message.top1(), .top5 = message.top5()};
}

ArenaRange sliceOfServer(std::size_t arenaSize, int server, int servers) {
  const auto bound = [&](int index) {
    return arenaSize * static_cast<std::size_t>(index) / static_cast<std::size_t>(servers);
  };
  return {bound(server), bound(server + 1)};
}

}  // namespace cohort
