#include "comm/communicator.h"

#include <atomic>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/channel.h"
#include "comm/thread_transport.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Runs work(communicator) as every worker, each on a thread.
void asWorkers(int size, std::uint32_t disorder, const std::function<void(Communicator&)>& work,
               double patience = 60) {
  ThreadHub hub(size, disorder);
  std::vector<std::unique_ptr<Communicator>> workers;
  for (int rank = 0; rank < size; ++rank) {
    workers.push_back(std::make_unique<Communicator>(hub.transport(rank), patience));
  }
  std::vector<std::jthread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&work, &worker] { work(*worker); });
  }
}

TEST(Communicator, AloneNeedsNobody) {
  Communicator alone;
  EXPECT_EQ(alone.size(), 1);
  EXPECT_TRUE(alone.isFirst());
  const Channel channel(alone, 0);
  channel.barrier("nothing");
  EXPECT_THAT(channel.gather("a", "a text"), ElementsAre("a"));
  EXPECT_EQ(channel.broadcast("b", "a text"), "b");
}

TEST(Communicator, GathersAndBroadcastsTexts) {
  for (const std::uint32_t disorder : {0U, 7U}) {
    asWorkers(3, disorder, [](Communicator& worker) {
      const Channel channel(worker, 3);
      const std::string own(static_cast<std::size_t>(worker.rank()) * 1000,
                            static_cast<char>('a' + worker.rank()));
      const std::vector<std::string> all = channel.gather(own, "texts");
      if (worker.isFirst()) {
        EXPECT_THAT(all, ElementsAre("", std::string(1000, 'b'), std::string(2000, 'c')));
      } else {
        EXPECT_TRUE(all.empty());
      }
      EXPECT_EQ(channel.broadcast(worker.isFirst() ? "hello" : "", "a greeting"), "hello");
      EXPECT_EQ(channel.broadcast("", "nothing"), "");
    });
  }
}

TEST(Communicator, ABarrierIsPassedByAllOrNobody) {
  std::atomic<int> arrived = 0;
  asWorkers(4, 3, [&](Communicator& worker) {
    const Channel channel(worker, 0);
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      channel.barrier("a round");
      EXPECT_GE(arrived.load(), 4 * round);
    }
  });
}

// Everybody sends to everybody, several times over the same transfers, and answers from within the callback.
TEST(Communicator, TransfersRepeatAndMayStartOthers) {
  constexpr int kRounds = 50;
  for (const std::uint32_t disorder : {0U, 1U, 2U}) {
    asWorkers(3, disorder, [](Communicator& worker) {
      const auto peers = static_cast<std::size_t>(worker.size());
      std::vector<int> out(peers);
      std::vector<int> in(peers);
      std::vector<int> answers(peers);
      std::atomic<int> pending = 0;
      std::vector<Communicator::Transfer*> first;
      for (int peer = 0; peer < worker.size(); ++peer) {
        if (peer == worker.rank()) continue;
        const auto at = static_cast<std::size_t>(peer);
        const auto one = [](std::vector<int>& values, std::size_t place) {
          return std::as_writable_bytes(std::span(values).subspan(place, 1));
        };
        const auto done = [&pending] { --pending; };
        Communicator::Transfer& answer = worker.addSend(peer, 1, one(in, at), done);
        first.push_back(&worker.addReceive(peer, 1, one(answers, at), done));
        first.push_back(
            &worker.addReceive(peer, 0, one(in, at), [&worker, &answer] { worker.start(answer); }));
        first.push_back(&worker.addSend(peer, 0, one(out, at), done));
      }
      for (int round = 0; round < kRounds; ++round) {
        pending = 3 * (worker.size() - 1);
        for (std::size_t peer = 0; peer < peers; ++peer)
          out[peer] = round * 100 + worker.rank() * 10 + static_cast<int>(peer);
        for (Communicator::Transfer* transfer : first) worker.start(*transfer);
        worker.waitUntil([&] { return pending == 0; }, [] { return "the round"; });
        for (int peer = 0; peer < worker.size(); ++peer) {
          if (peer == worker.rank()) continue;
          const auto at = static_cast<std::size_t>(peer);
          ASSERT_EQ(in[at], round * 100 + peer * 10 + worker.rank());
          ASSERT_EQ(answers[at], out[at]);
        }
      }
    });
  }
}

TEST(Communicator, AWaitEndsAndNamesWhoIsMissing) {
  ThreadHub hub(3);
  Communicator worker(hub.transport(1), 0.05);
  const Channel channel(worker, 0);
  EXPECT_THAT([&] { channel.barrier("the first step"); },
              ThrowsMessage<PeerError>(HasSubstr("worker 1 waited 0.05 s for worker 0: the first step")));
  // And it stays so.
  EXPECT_THROW(channel.barrier("the second step"), PeerError);
}

TEST(Communicator, IsGivenUpBySomebodyWhoKnowsWhy) {
  ThreadHub hub(2);
  Communicator worker(hub.transport(0), 60);
  const Channel channel(worker, 0);
  std::jthread watcher([&] {
    while (worker.waitingFor().empty()) std::this_thread::yield();
    EXPECT_EQ(worker.waitingFor(), "worker 1: the first step");
    worker.giveUp("worker 1 gave no sign of life");
  });
  EXPECT_THAT([&] { channel.barrier("the first step"); },
              ThrowsMessage<PeerError>("worker 1 gave no sign of life"));
}

TEST(Communicator, CountsTheMessagesThatAreDone) {
  asWorkers(2, 0, [](Communicator& worker) {
    EXPECT_EQ(worker.doneMessages(), 0U);
    Channel(worker, 0).barrier("a round");
    // The last one may be counted a moment after its receiver goes on.
    while (worker.doneMessages() < 2) std::this_thread::yield();
  });
}

TEST(Communicator, WhatFailsOnItsThreadIsToldToWhoWaits) {
  asWorkers(2, 0, [](Communicator& worker) {
    int value = worker.rank();
    const std::span<std::byte> memory = std::as_writable_bytes(std::span(&value, 1));
    std::atomic<bool> isDone = false;
    Communicator::Transfer& transfer =
        worker.isFirst() ? worker.addSend(1, 0, memory, [&] { isDone = true; })
                         : worker.addReceive(0, 0, memory, [] { throw IoError("the disk is full"); });
    worker.start(transfer);
    const auto wait = [&] { worker.waitUntil([&] { return isDone.load(); }, [] { return "a number"; }); };
    if (worker.isFirst()) {
      wait();
    } else {
      EXPECT_THAT(wait, ThrowsMessage<IoError>("the disk is full"));
    }
  });
}

TEST(Communicator, NobodyWritesIntoTheMemoryOfOneThatHasFailed) {
  ThreadHub hub(2);
  Communicator failed(hub.transport(0), 60);
  Communicator other(hub.transport(1), 0.2);
  auto memory = std::make_unique<int>(7);
  std::atomic<bool> isSent = false;
  int value = 8;
  failed.start(failed.addReceive(1, 0, std::as_writable_bytes(std::span(memory.get(), 1))));
  failed.halt();
  other.start(other.addSend(0, 0, std::as_writable_bytes(std::span(&value, 1)), [&] { isSent = true; }));
  EXPECT_THROW(other.waitUntil([&] { return isSent.load(); }, [] { return "a receiver"; }), PeerError);
  EXPECT_EQ(*memory, 7);
}

}  // namespace
}  // namespace cohort
