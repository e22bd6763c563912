// What workers send to each other in a Redistribute.
#include <map>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "parallel/partition.h"
#include "parallel/test_lines.h"

namespace cohort {
namespace {

using Samples = Spread::Samples;

std::vector<std::vector<ChannelRange>> each(std::vector<ChannelRange> ranges) {
  std::vector<std::vector<ChannelRange>> lists;
  for (const ChannelRange& range : ranges) lists.push_back({range});
  return lists;
}

Spread own(int workers, std::int64_t channels) {
  return {Samples::Own,
          std::vector<std::vector<ChannelRange>>(static_cast<std::size_t>(workers), {{0, channels}})};
}
Spread copies(int workers, std::int64_t channels) {
  return {Samples::Round, own(workers, channels).channels};
}
Spread channels(std::vector<ChannelRange> ranges) {
  return {Samples::Round, each(std::move(ranges))};
}

TEST(Passage, GatherSendsTheOwnGrainToAll) {
  const Redistribute op{own(3, 8), copies(3, 8)};
  EXPECT_EQ(passage(op, 1, 2), (Passage{.fromGrain = 0, .toGrain = 1, .grains = 1, .channels = {{0, 0, 8}}}));
  EXPECT_EQ(passage(op, 2, 0), (Passage{.fromGrain = 0, .toGrain = 2, .grains = 1, .channels = {{0, 0, 8}}}));
  EXPECT_EQ(passage(op, 1, 1), (Passage{.fromGrain = 0, .toGrain = 1, .grains = 1, .channels = {{0, 0, 8}}}));
}

TEST(Passage, SamplesBecomeChannelsByAnExchangeOfAllWithAll) {
  const Redistribute op{own(2, 8), channels({{0, 3}, {3, 8}})};
  EXPECT_EQ(passage(op, 0, 1), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 1, .channels = {{3, 0, 5}}}));
  EXPECT_EQ(passage(op, 1, 0), (Passage{.fromGrain = 0, .toGrain = 1, .grains = 1, .channels = {{0, 0, 3}}}));
  EXPECT_EQ(passage(op, 1, 1), (Passage{.fromGrain = 0, .toGrain = 1, .grains = 1, .channels = {{3, 0, 5}}}));
}

TEST(Passage, ChannelsBecomeSamplesTheSameWayBack) {
  const Redistribute op{channels({{0, 3}, {3, 8}}), own(2, 8)};
  EXPECT_EQ(passage(op, 0, 1), (Passage{.fromGrain = 1, .toGrain = 0, .grains = 1, .channels = {{0, 0, 3}}}));
  EXPECT_EQ(passage(op, 1, 0), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 1, .channels = {{0, 3, 5}}}));
  EXPECT_EQ(passage(op, 0, 0), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 1, .channels = {{0, 0, 3}}}));
}

TEST(Passage, ChannelsOfAllSamplesAreGathered) {
  const Redistribute op{channels({{0, 3}, {3, 8}}), copies(2, 8)};
  EXPECT_EQ(passage(op, 0, 1), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 2, .channels = {{0, 0, 3}}}));
  EXPECT_EQ(passage(op, 1, 0), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 2, .channels = {{0, 3, 5}}}));
}

TEST(Passage, OtherChannelsComeFromWhoHasThem) {
  const Redistribute op{channels({{0, 2}, {2, 5}, {5, 8}}), channels({{0, 4}, {4, 8}, {4, 8}})};
  EXPECT_EQ(passage(op, 0, 0), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 3, .channels = {{0, 0, 2}}}));
  EXPECT_EQ(passage(op, 1, 0), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 3, .channels = {{0, 2, 2}}}));
  EXPECT_EQ(passage(op, 1, 2), (Passage{.fromGrain = 0, .toGrain = 0, .grains = 3, .channels = {{2, 0, 1}}}));
  EXPECT_EQ(passage(op, 2, 0), Passage{}) << "it has nothing that is needed there";
  EXPECT_EQ(passage(op, 0, 2), Passage{});
}

TEST(Passage, OfWhatAllHaveNothingIsSent) {
  const Redistribute toOwn{copies(2, 8), own(2, 8)};
  EXPECT_EQ(passage(toOwn, 0, 1), Passage{});
  EXPECT_EQ(passage(toOwn, 1, 1),
            (Passage{.fromGrain = 1, .toGrain = 0, .grains = 1, .channels = {{0, 0, 8}}}));
  const Redistribute toChannels{copies(2, 8), channels({{0, 3}, {3, 8}})};
  EXPECT_EQ(passage(toChannels, 1, 0), Passage{});
  EXPECT_EQ(passage(toChannels, 1, 1),
            (Passage{.fromGrain = 0, .toGrain = 0, .grains = 2, .channels = {{3, 0, 5}}}));
}

TEST(Passage, SeveralRangesGoInTheOrderInWhichTheyLie) {
  const Redistribute op{{Samples::Round, {{{0, 2}, {4, 6}}, {{2, 4}, {6, 8}}}}, copies(2, 8)};
  EXPECT_EQ(passage(op, 1, 0),
            (Passage{.fromGrain = 0, .toGrain = 0, .grains = 2, .channels = {{0, 2, 2}, {2, 6, 2}}}));
  const Redistribute back{copies(2, 8), op.from};
  EXPECT_EQ(passage(back, 1, 1),
            (Passage{.fromGrain = 0, .toGrain = 0, .grains = 2, .channels = {{2, 0, 2}, {6, 2, 2}}}));
}

// A grain of the round and a channel of the whole value.
using Element = std::pair<int, std::int64_t>;

// By worker and place (grain, channel) of its value: which element lies there.
std::map<std::tuple<int, int, std::int64_t>, Element> elementsOf(const Spread& spread) {
  std::map<std::tuple<int, int, std::int64_t>, Element> elements;
  for (int worker = 0; worker < std::ssize(spread.channels); ++worker) {
    for (int grain = 0; grain < grainsOf(spread); ++grain) {
      std::int64_t place = 0;
      for (const ChannelRange& range : spread.channels[static_cast<std::size_t>(worker)]) {
        for (std::int64_t channel = range.first; channel < range.last; ++channel) {
          elements[{worker, grain, place++}] = {spread.samples == Samples::Own ? worker : grain, channel};
        }
      }
    }
  }
  return elements;
}

void expectEverythingArrivesOnce(const Redistribute& op, int workers) {
  SCOPED_TRACE(fmt::format("{} to {}", text(op.from), text(op.to)));
  const auto have = elementsOf(op.from);
  const auto want = elementsOf(op.to);
  std::map<std::tuple<int, int, std::int64_t>, int> arrivals;
  for (int from = 0; from < workers; ++from) {
    for (int to = 0; to < workers; ++to) {
      const Passage sent = passage(op, from, to);
      for (const Passage::Channels& part : sent.channels) {
        ASSERT_GT(part.count, 0);
        for (int grain = 0; grain < sent.grains; ++grain) {
          for (std::int64_t i = 0; i < part.count; ++i) {
            const auto source = have.find({from, sent.fromGrain + grain, part.from + i});
            const auto target = want.find({to, sent.toGrain + grain, part.to + i});
            ASSERT_NE(source, have.end()) << from << " sends what it does not have";
            ASSERT_NE(target, want.end()) << to << " has no place for it";
            ASSERT_EQ(source->second, target->second);
            ++arrivals[target->first];
          }
        }
      }
    }
  }
  ASSERT_EQ(arrivals.size(), want.size()) << "something is missing";
  for (const auto& [place, count] : arrivals) ASSERT_EQ(count, 1);
}

TEST(Passage, EveryElementArrivesOnceWhateverTheSpreads) {
  constexpr std::int64_t kChannels = 12;
  for (int workers = 2; workers <= 4; ++workers) {
    std::vector<Spread> sources{own(workers, kChannels), copies(workers, kChannels)};
    for (const auto& [groups, block] : {std::pair{1, 1}, {1, 4}, {2, 1}, {3, 1}}) {
      sources.push_back(channels(divideChannels(kChannels, workers, groups, block)));
    }
    // Two values of four and eight channels, one behind the other.
    Spread joined{Samples::Round, each(divideChannels(4, workers))};
    for (std::size_t worker = 0; const ChannelRange& range : divideChannels(8, workers)) {
      joined.channels[worker++].push_back({4 + range.first, 4 + range.last});
    }
    sources.push_back(joined);
    std::vector<Spread> targets = sources;
    // Neighbours share what they have.
    Spread shared = sources[2];
    for (std::size_t worker = 1; worker < shared.channels.size(); worker += 2) {
      shared.channels[worker] = shared.channels[worker - 1];
    }
    targets.push_back(shared);
    for (const Spread& from : sources) {
      for (const Spread& to : targets) expectEverythingArrivesOnce({from, to}, workers);
    }
  }
}

}  // namespace
}  // namespace cohort
