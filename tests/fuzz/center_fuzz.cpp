// Words of strangers to a center. Whatever they say, the server lives, and a good worker is answered afterwards.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <google/protobuf/stubs/logging.h>

#include "center/test_center.h"
#include "tests/fuzz/center_frames.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace cohort;
using What = wire::Envelope::WhatCase;

constexpr LinkId kGoodLink = 1'000'000;

CenterSetup setupOf(unsigned rule) {
  constexpr const char* kRules[] = {"async", "ssp", "bsp", "backup"};
  CenterSetup setup = tinySetup(kRules[rule % 4], 3);
  setup.rule.staleness = 1;
  setup.rule.members = 2;
  setup.rule.backups = 1;
  return setup;
}

// How large a run may be is a matter of memory, not of sense: larger ones are left out here.
bool isTooLarge(const wire::Setup& message) {
  try {
    const CenterSetup setup = fromWire(message);
    return setup.grains > 1000 || ParameterLayout(setup.parameters).size() > 100'000;
  } catch (const UsageError&) {
    return false;
  }
}

class Conversation {
 public:
  explicit Conversation(unsigned start)
      : place_{.index = (start & 8U) != 0 ? 1 : 0, .count = (start & 8U) != 0 ? 2 : 1}, center_(place_) {
    const CenterSetup setup = setupOf(start);
    if ((start & 4U) == 0) return;
    const LinkId opener = linkOf(0);
    hear(opener, hello(opener));
    center_.load(opener, setup);
    if (place_.index > 0) return;
    hear(opener, words::loaded());
    hear(opener, words::enter());
    hear(linkOf(1), hello(linkOf(1)));
    hear(linkOf(1), words::enter());
  }

  void happen(const CenterFrame& frame) {
    const unsigned what = frame.place >> 3U & 3U;
    const LinkId link = linkOf(frame.place & 7U);
    if (what == 2) return end(link);
    if (what == 3) return center_.center.halt((frame.place & 1U) != 0);
    wire::Envelope word;
    if (!word.ParseFromString(frame.envelope)) return;
    if (word.has_setup() && isTooLarge(word.setup())) return;
    hear(link, word, frame.payload);
  }

  // Comes among the others, who then leave.
  void askAsAGoodWorker() {
    requireTaken(hello(kGoodLink), "a greeting");
    std::vector<RecordingLink::Heard> heard = center_.take(kGoodLink);
    if (heard.empty()) failFuzzing("A greeting is not answered.");
    for (const auto& [number, link] : std::map(links_)) end(link);
    for (RecordingLink::Heard& more : center_.take(kGoodLink)) heard.push_back(std::move(more));
    if (heard.back().head.what_case() != What::kWelcome)
      failFuzzing("A worker that is alone is not welcome.");
    if (!heard.back().head.welcome().is_open()) open();
    const RecordingLink::Heard weights = pull();
    const Step version = weights.head.floats().version();
    if (place_.index == 0) requireTaken(words::enter(), "a member");
    center_.take(kGoodLink);
    if (version < target()) {  // others may have set up a run that has no steps left
      requireTaken(words::push({.step = version, .basis = version, .offset = weights.head.floats().offset()}),
                   "a gradient", weights.floats);
      if (center_.kinds(kGoodLink).empty()) failFuzzing("A gradient is not answered.");
    }
    goOnElsewhere();
  }

 private:
  wire::Envelope hello(std::uint64_t token) const {
    return words::hello({.token = token,
                         .server = static_cast<std::uint32_t>(place_.index),
                         .servers = static_cast<std::uint32_t>(place_.count)});
  }
  // As transports do, a new number for each connection.
  LinkId linkOf(unsigned number) {
    const auto [found, isNew] = links_.try_emplace(number, lastLink_ + 1);
    if (isNew) ++lastLink_;
    return found->second;
  }
  void hear(LinkId link, const wire::Envelope& word, std::size_t payload = 0) {
    const std::vector<std::byte> bytes(payload, std::byte{0x3f});
    if (!center_.say(link, word, bytes)) end(link);
  }
  void end(LinkId link) {
    center_.close(link);
    std::erase_if(links_, [&](const auto& entry) { return entry.second == link; });
  }
  void requireTaken(const wire::Envelope& word, const char* what, const std::vector<float>& floats = {}) {
    if (center_.say(kGoodLink, word, floats)) return;
    const std::string sentence = center_.last(kGoodLink, What::kRefused).refused().sentence();
    failFuzzing(std::string("A good worker is refused ").append(what).append(": ").append(sentence));
  }
  void open() {
    CenterSetup setup = setupOf(0);
    setup.opening = 0x600d;
    if (!center_.load(kGoodLink, setup)) failFuzzing("A good worker cannot open the run.");
    if (place_.index == 0) requireTaken(words::loaded(), "an opening");
  }
  Step target() {
    wire::Envelope ask;
    ask.mutable_ask_status();
    requireTaken(ask, "its status");
    const wire::Status status = center_.last(kGoodLink, What::kStatus).status();
    return status.has_target() ? status.target() : kNoTarget;
  }
  RecordingLink::Heard pull() {
    center_.take(kGoodLink);
    requireTaken(words::pull(0), "the weights");
    const std::vector<RecordingLink::Heard> heard = center_.take(kGoodLink);
    if (heard.size() != 1 || heard[0].floats.empty()) failFuzzing("The weights do not come.");
    return heard[0];
  }
  void goOnElsewhere() {
    if (!center_.center.hasSnapshot()) return;
    Center other(place_);
    other.restore(center_.center.snapshot());
    if (!other.hasSnapshot()) failFuzzing("A snapshot is not gone on with.");
  }

  Center::Place place_;
  SpokenCenter center_;
  std::map<unsigned, LinkId> links_;
  LinkId lastLink_ = 0;
};

unsigned below(unsigned& seed, std::size_t count) {
  seed = seed * 1664525U + 1013904223U;
  return static_cast<unsigned>((seed >> 8U) % count);
}

// Changes one word, or who says it and when: a change to the bytes as a whole mostly breaks the frames.
void change(std::vector<CenterFrame>& frames, unsigned seed) {
  const unsigned at = below(seed, frames.size());
  CenterFrame& frame = frames[at];
  switch (below(seed, 8)) {
    case 0:
      std::swap(frame, frames[below(seed, frames.size())]);
      break;
    case 1:
      frames.insert(frames.begin() + below(seed, frames.size() + 1), CenterFrame(frame));
      break;
    case 2:
      frames.erase(frames.begin() + at);
      break;
    case 3:
      frame.place = static_cast<std::uint8_t>(frame.place ^ (1U << below(seed, 5)));
      break;
    case 4:
      frame.payload = static_cast<std::uint8_t>(below(seed, 3) == 0 ? 44 : below(seed, 256));
      break;
    default: {
      std::vector<std::uint8_t> room(frame.envelope.begin(), frame.envelope.end());
      room.resize(room.size() + 32);
      room.resize(LLVMFuzzerMutate(room.data(), frame.envelope.size(), room.size()));
      frame.envelope.assign(room.begin(), room.end());
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer kQuiet;  // it tells of strings that are no UTF-8
  if (size == 0) return 0;
  Conversation conversation(data[0]);
  for (const CenterFrame& frame : centerFrames({data + 1, size - 1})) conversation.happen(frame);
  conversation.askAsAGoodWorker();
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  std::vector<CenterFrame> frames;
  if (size > 0) frames = centerFrames({data + 1, size - 1});
  if (frames.empty() || seed % 8 == 0) return LLVMFuzzerMutate(data, size, maxSize);
  if (seed % 8 == 1) {
    data[0] = static_cast<std::uint8_t>(data[0] ^ (1U << (seed / 8 % 4)));
    return size;
  }
  for (unsigned i = 0; i <= seed / 8 % 3 && !frames.empty(); ++i) change(frames, seed + i);
  const std::string changed = bytesOf(frames);
  if (changed.size() + 1 > maxSize) return LLVMFuzzerMutate(data, size, maxSize);
  std::ranges::copy(changed, data + 1);
  return changed.size() + 1;
}
