#include "train/layer_bench.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "comm/thread_transport.h"

namespace cohort {
namespace {

using Layer = LayerBench::Layer;
using Mode = LayerBench::Mode;

LayerBench tiny(Layer layer, Mode mode, int workers, int lanes = 1) {
  return {.layer = layer,
          .mode = mode,
          .input = {.channels = 3, .height = 10, .width = 8},
          .outputs = 48,
          .kernel = 3,
          .stride = 2,
          .workers = workers,
          .lanes = lanes,
          .batch = 12,
          .steps = 6};
}

// By worker.
std::vector<LayerTimes> run(const LayerBench& bench) {
  ThreadHub hub(bench.workers, 1);
  std::vector<LayerTimes> times(static_cast<std::size_t>(bench.workers));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < bench.workers; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator workers(hub.transport(rank));
      times[static_cast<std::size_t>(rank)] = runLayer(bench, workers);
    });
  }
  threads.clear();
  return times;
}

LayerTimes alone(const LayerBench& bench) {
  Communicator workers;
  return runLayer(bench, workers);
}

TEST(LayerBench, LearnsTheSameHoweverItIsDivided) {
  for (const Layer layer : {Layer::Dense, Layer::Conv}) {
    LayerBench brief = tiny(layer, Mode::None, 1);
    brief.steps = 1;
    const double first = alone(brief).loss;
    const double last = alone(tiny(layer, Mode::None, 1)).loss;
    EXPECT_LT(last, 0.995 * first);
    for (const LayerBench& bench :
         {tiny(layer, Mode::None, 1, 3), tiny(layer, Mode::Data, 3), tiny(layer, Mode::Model, 3),
          tiny(layer, Mode::Data, 2, 2), tiny(layer, Mode::Model, 2, 2)}) {
      const double loss = bench.workers == 1 ? alone(bench).loss : run(bench).front().loss;
      EXPECT_NEAR(loss, last, 1e-4 * (first - last))
          << "mode " << static_cast<int>(bench.mode) << ", " << bench.workers << " workers";
    }
  }
}

TEST(LayerBench, SendsGradientsAndWeightsByDataAndOutputsByModel) {
  constexpr double kFew = 1000;  // losses and wishes
  const double weights = 4.0 * 48 * (3 * 10 * 8 + 1);
  for (const LayerTimes& times : run(tiny(Layer::Dense, Mode::Data, 2))) {
    EXPECT_GE(times.sentBytes, weights) << "half of its gradients, and half of all weights";
    EXPECT_LT(times.sentBytes, weights + kFew);
  }
  const double outputs = 4.0 * 12 / 2 * 48 / 2;
  for (const LayerTimes& times : run(tiny(Layer::Dense, Mode::Model, 2))) {
    EXPECT_GE(times.sentBytes, 2 * outputs) << "half of the outputs of half of the images, and gradients";
    EXPECT_LT(times.sentBytes, 2 * outputs + kFew);
  }
  EXPECT_EQ(alone(tiny(Layer::Dense, Mode::None, 1)).sentBytes, 0);
}

TEST(LayerBench, EveryTimeIsItsOwn) {
  for (const Mode mode : {Mode::Data, Mode::Model}) {
    for (const LayerTimes& times : run(tiny(Layer::Conv, mode, 2))) {
      EXPECT_GT(times.forward, 0);
      EXPECT_GT(times.backward, 0);
      EXPECT_GT(times.update, 0);
      EXPECT_GT(times.communication, 0);
      EXPECT_GT(times.step, times.forward);
      EXPECT_GT(times.step, times.backward);
      EXPECT_GT(times.step, times.communication);
    }
  }
}

TEST(LayerBench, WhatCollectivesTakeIsCommunication) {
  const PhaseSeconds spent{.data = 100, .forward = 20, .backward = 32, .wait = 4};
  LayerTable layers(2);
  layers[0].kind = "dense";
  layers[0].forwardSeconds = 7;
  layers[0].backwardSeconds = 9;
  layers[0].updateSeconds = 1;
  layers[1].kind = "collective";
  layers[1].forwardSeconds = 2;
  layers[1].backwardSeconds = 5;
  const LayerTimes times = timesOf(spent, 2, layers);
  EXPECT_EQ(times.forward, 20 / 2 - 2);
  EXPECT_EQ(times.backward, 32 / 2 - 1 - 5);
  EXPECT_EQ(times.update, 1);
  EXPECT_EQ(times.communication, 4 / 2 + 2 + 5);
}

// Hands everything on, but texts of channels come with other letters.
class GarblingTransport : public Transport {
 public:
  explicit GarblingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  MessageId add(const Message& message) override {
    const MessageId id = inner_->add(message);
    const bool isText = message.tag >= Communicator::kTags && message.memory.size() > sizeof(std::uint64_t);
    if (isText && message.direction == Message::Direction::Receive) texts_[id] = message.memory;
    return id;
  }
  void remove(MessageId id) override {
    texts_.erase(id);
    inner_->remove(id);
  }
  void start(MessageId id) override { inner_->start(id); }
  void poll(std::vector<MessageId>& done) override {
    const auto known = static_cast<std::ptrdiff_t>(done.size());
    inner_->poll(done);
    for (auto id = done.begin() + known; id != done.end(); ++id) {
      if (const auto text = texts_.find(*id); text != texts_.end())
        std::ranges::fill(text->second, std::byte{'?'});
    }
  }

 private:
  std::unique_ptr<Transport> inner_;
  std::map<MessageId, std::span<std::byte>> texts_;
};

// Others may still send to the layer's memory, which goes with the failure.
TEST(LayerBench, AFailureEndsTheCommunicationFirst) {
  const LayerBench bench = tiny(Layer::Dense, Mode::Model, 2);
  ThreadHub hub(2, 1);
  const std::jthread other([&] {
    Communicator workers(hub.transport(1));
    runLayer(bench, workers);
  });
  Communicator workers(std::make_unique<GarblingTransport>(hub.transport(0)), 60);
  EXPECT_BEGINS(errorOf<IoError>([&] { runLayer(bench, workers); }), "a worker's times cannot be read");
  EXPECT_EQ(errorOf<PeerError>([&] { workers.waitUntil([] { return false; }, [] { return "nobody"; }); }),
            "worker 0 has failed");
}

TEST(LayerBench, RefusesWhatDoesNotFit) {
  const auto refusal = [](const LayerBench& bench) {
    return errorOf<UsageError>([&] { requireLayer(bench); });
  };
  EXPECT_EQ(refusal(tiny(Layer::Dense, Mode::Data, 2, 3)), "no error");
  EXPECT_MENTIONS(refusal(tiny(Layer::Dense, Mode::Data, 5)), "12 does not divide into 5 equal parts");
  EXPECT_MENTIONS(refusal(tiny(Layer::Dense, Mode::Model, 2, 4)), "8 equal parts");
  EXPECT_MENTIONS(refusal(tiny(Layer::Dense, Mode::Model, 1)), "2 workers at least");
  EXPECT_MENTIONS(refusal(tiny(Layer::Dense, Mode::None, 2)), "one worker");
  LayerBench bench = tiny(Layer::Dense, Mode::Model, 4);
  bench.outputs = 3;
  EXPECT_MENTIONS(refusal(bench), "3 outputs cannot be divided over 4 workers");
  bench = tiny(Layer::Conv, Mode::None, 1);
  bench.kernel = 9;
  EXPECT_MENTIONS(refusal(bench), "does not fit its 10x8 input");
}

TEST(LayerBench, TimesSurviveAsText) {
  const LayerTimes times{.forward = 1,
                         .backward = 2.5,
                         .update = 1.0 / 3,
                         .communication = 4e-9,
                         .step = 5e9,
                         .sentBytes = 6,
                         .loss = 7.25};
  EXPECT_EQ(layerTimes(toJson(times), "a test"), times);
  for (const char* text : {"", "[]", "{}", R"({"forward_s": "long"})"}) {
    EXPECT_BEGINS(errorOf<IoError>([&] { layerTimes(text, "a test"); }), "a test cannot be read");
  }
}

}  // namespace
}  // namespace cohort
