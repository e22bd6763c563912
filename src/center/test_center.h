// For tests only: a Center that is spoken to word by word, over links that remember what it answers.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "center/center.h"
#include "center/protocol.h"
#include "center/setup_wire.h"

namespace cohort {

// Eleven floats with one slot, "momentum".
inline CenterSetup tinySetup(const std::string& rule = "async", int grains = 2) {
  CenterSetup setup;
  setup.config = "network: test";
  setup.parameters.resize(2);
  setup.parameters[0].name = "a";
  setup.parameters[0].shape = {3, 3};
  setup.parameters[1].name = "b";
  setup.parameters[1].shape = {2};
  setup.optimizer.kind = OptimizerKind::Momentum;
  setup.optimizer.learningRate = 0.5;
  setup.epoch = {.samples = 10, .batch = 5};
  setup.grains = grains;
  setup.target = 100;
  setup.rule.name = rule;
  setup.rule.hasOwnWeights = rule == "easgd" || rule == "gossip";
  setup.opening = 77;
  return setup;
}
inline constexpr std::size_t kTinySize = 11;

// ---- a worker's words

namespace words {

struct HelloOptions {
  std::uint64_t token = 1;
  std::uint32_t server = 0;
  std::uint32_t servers = 1;
  std::uint32_t protocol = kProtocol;
  std::uint64_t opening = 0;
  std::uint64_t life = 0;
  Step version = 0;
  Step checkpoint = 0;
};
inline wire::Envelope hello(const HelloOptions& options) {
  wire::Envelope word;
  word.mutable_hello()->set_protocol(options.protocol);
  word.mutable_hello()->set_server(options.server);
  word.mutable_hello()->set_servers(options.servers);
  word.mutable_hello()->set_token(options.token);
  word.mutable_hello()->set_name("a worker");
  word.mutable_hello()->set_opening(options.opening);
  word.mutable_hello()->set_life(options.life);
  word.mutable_hello()->set_version(options.version);
  word.mutable_hello()->set_checkpoint(options.checkpoint);
  return word;
}
inline wire::Envelope setup(const CenterSetup& setup) {
  wire::Envelope word;
  *word.mutable_setup() = toWire(setup);
  return word;
}
inline wire::Envelope load(std::string_view arena, std::uint64_t offset = 0) {
  wire::Envelope word;
  word.mutable_load()->set_arena(std::string(arena));
  word.mutable_load()->set_offset(offset);
  return word;
}
inline wire::Envelope loaded() {
  wire::Envelope word;
  word.mutable_loaded();
  return word;
}
inline wire::Envelope enter() {
  wire::Envelope word;
  word.mutable_enter();
  return word;
}
struct PushOptions {
  Step step = 0;
  int node = 0;
  Step basis = 0;
  std::uint64_t offset = 0;
};
inline wire::Envelope push(const PushOptions& options) {
  wire::Envelope word;
  word.mutable_push()->set_step(options.step);
  word.mutable_push()->set_node(options.node);
  word.mutable_push()->set_basis(options.basis);
  word.mutable_push()->set_offset(options.offset);
  return word;
}
inline wire::Envelope pull(Step version, std::uint64_t ticket = 1,
                           const std::vector<std::string>& arenas = {std::string(kWeights)}) {
  wire::Envelope word;
  for (const std::string& arena : arenas) word.mutable_pull()->add_arenas(arena);
  word.mutable_pull()->set_version(version);
  word.mutable_pull()->set_ticket(ticket);
  return word;
}
inline wire::Envelope commit(Step step, const std::vector<GrainRange>& grains) {
  wire::Envelope word = pull(step + 1);
  word.mutable_pull()->set_commit_step(step);
  for (const GrainRange& range : grains) {
    wire::Range& added = *word.mutable_pull()->add_commit();
    added.set_first(range.first);
    added.set_last(range.last);
  }
  return word;
}
// With a loss of 1 and two samples for each grain.
inline wire::Envelope finished(const Work& work) {
  wire::Envelope word;
  word.mutable_finished()->mutable_work()->set_step(work.step);
  word.mutable_finished()->mutable_work()->set_first(work.grains.first);
  word.mutable_finished()->mutable_work()->set_last(work.grains.last);
  for (int i = 0; i < work.grains.count(); ++i)
    *word.mutable_finished()->add_losses() = toWire(LossSum{.loss = 1, .samples = 2});
  return word;
}
inline wire::Envelope halt() {
  wire::Envelope word;
  word.mutable_halt();
  return word;
}
inline wire::Envelope settled() {
  wire::Envelope word;
  word.mutable_settled();
  return word;
}
inline wire::Envelope bye() {
  wire::Envelope word;
  word.mutable_bye();
  return word;
}
inline wire::Envelope reopen(std::uint64_t opening) {
  wire::Envelope word;
  word.mutable_reopen()->set_opening(opening);
  return word;
}

}  // namespace words

inline Payload payloadOf(std::span<const std::byte> bytes) {
  const auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return Payload({std::span<const std::byte>(*owner)}, owner);
}

// The server's end of a connection.
class RecordingLink : public Link {
 public:
  struct Heard {
    wire::Envelope head;
    std::vector<float> floats;
  };

  void send(const wire::Envelope& head, std::span<const float> floats, std::shared_ptr<const void>) override {
    heard.push_back({head, {floats.begin(), floats.end()}});
  }
  void close() override {}

  std::vector<Heard> heard;
};

class SpokenCenter {
 public:
  using What = wire::Envelope::WhatCase;

  explicit SpokenCenter(const Center::Place& place = {}, JournalWriter* journal = nullptr)
      : center(place, journal), place_(place) {}

  // False: refused. The link is opened with its first word.
  bool say(LinkId id, const wire::Envelope& word, std::span<const std::byte> bytes = {}) {
    if (!links.contains(id)) center.opened(id, links[id]);
    return center.received(id, {.head = word, .payload = payloadOf(bytes)});
  }
  bool say(LinkId id, const wire::Envelope& word, const std::vector<float>& floats) {
    return say(id, word, std::as_bytes(std::span(floats)));
  }
  void close(LinkId id) {
    center.closed(id);
    links.erase(id);
  }

  // What a link has heard since the last call.
  std::vector<RecordingLink::Heard> take(LinkId id) { return std::exchange(links[id].heard, {}); }
  // The same, by kind alone.
  std::vector<What> kinds(LinkId id) {
    std::vector<What> all;
    for (const RecordingLink::Heard& one : take(id)) all.push_back(one.head.what_case());
    return all;
  }
  // The last of a kind; an empty envelope where there is none.
  wire::Envelope last(LinkId id, What what) {
    wire::Envelope found;
    for (const RecordingLink::Heard& one : take(id)) {
      if (one.head.what_case() == what) found = one.head;
    }
    return found;
  }
  // The sentence of the refusal that a word meets; "taken" where it meets none.
  std::string refusalOf(LinkId id, const wire::Envelope& word, std::span<const std::byte> bytes = {}) {
    if (say(id, word, bytes)) return "taken";
    return last(id, What::kRefused).refused().sentence();
  }

  // All of a run's floats, from a link that has greeted.
  bool load(LinkId id, const CenterSetup& setup, float value = 0) {
    const ArenaRange slice =
        sliceOfServer(ParameterLayout(setup.parameters).size(), place_.index, place_.count);
    const std::vector<float> floats(slice.size(), value);
    bool isTaken = say(id, words::setup(setup));
    isTaken = isTaken && say(id, words::load(kWeights, slice.begin), floats);
    for (const std::string& slot : slotNames(setup.optimizer))
      isTaken = isTaken && say(id, words::load(slot, slice.begin), std::vector<float>(slice.size()));
    return isTaken;
  }
  // A run by its first worker, which also enters.
  void open(LinkId id, const CenterSetup& setup) {
    say(id, words::hello({.token = id}));
    load(id, setup);
    say(id, words::loaded());
    say(id, words::enter());
  }
  void join(LinkId id) {
    say(id, words::hello({.token = id}));
    say(id, words::enter());
  }
  // The whole gradient of a node.
  bool push(LinkId id, const words::PushOptions& options, float value = 1) {
    return say(id, words::push(options), std::vector<float>(kTinySize, value));
  }

  // A whole step's, where each counts alone: with a gradient of zeros, whose confirmation is not heard.
  bool finish(LinkId id, const wire::Envelope& word) {
    push(id, {.step = word.finished().work().step()}, 0);
    std::erase_if(links[id].heard, [](const auto& one) { return one.head.has_received(); });
    return say(id, word);
  }
  bool finish(LinkId id, Step step) { return finish(id, words::finished({step, {0, 2}})); }

  Center center;
  std::map<LinkId, RecordingLink> links;

 private:
  Center::Place place_;
};

}  // namespace cohort
