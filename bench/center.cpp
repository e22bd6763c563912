// One worker and one server of a center: how long it takes to send a gradient and to have new weights.
//
//   bench_center ADDRESS CREDENTIALS|- FLOATS STEPS    prints a line of JSON; ADDRESS as `cohort serve` says it
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/float_buffer.h"
#include "center/client.h"
#include "center/status.h"

using namespace cohort;

namespace {

CenterSetup setupOf(std::size_t floats, Step steps) {
  return {
      .config = "bench",
      .parameters = {{.name = "weights", .shape = {static_cast<std::int64_t>(floats)}, .initializer = {}}},
      .optimizer = {.kind = OptimizerKind::Sgd, .learningRate = 0.01},
      .epoch = {.samples = 1, .batch = 1},
      .grains = 1,
      .target = steps,
      .rule = {.name = "async"}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_center ADDRESS CREDENTIALS|- FLOATS STEPS\n");
    return 2;
  }
  const std::size_t floats = std::strtoull(argv[3], nullptr, 10);
  const Step steps = std::strtoll(argv[4], nullptr, 10);
  std::optional<Credentials> credentials;
  if (std::string(argv[2]) != "-") credentials = readCredentials(argv[2]);
  const std::shared_ptr<Connector> servers = connectorTo(std::vector<std::string>{argv[1]}, credentials);
  FloatBuffer weights(floats);
  FloatBuffer gradient(floats);
  std::ranges::fill(gradient.span(), 1e-3F);
  const CenterSetup setup = setupOf(floats, steps);
  std::vector<double> seconds;
  double updateSeconds = 0;
  {
    CenterClient client(servers, {});
    client.join();
    client.open(setup, {{"weights", weights.span()}});
    client.enter(setup, weights.span());
    for (CenterClient::Order order = client.next(); order.kind != CenterClient::Order::Kind::Over;) {
      if (order.kind == CenterClient::Order::Kind::End) {
        updateSeconds = fetchStatus(*servers, 10).front().updateSeconds;
        client.settle();
        order = client.next();
        continue;
      }
      const Clock::time_point start = Clock::now();
      constexpr std::size_t kBucket = std::size_t{1} << 20;
      for (std::size_t at = 0; at < floats; at += kBucket)
        client.push(0, {at, std::min(floats, at + kBucket)}, gradient.span());
      client.finish(std::vector<LossSum>(1));
      order = client.next();
      seconds.push_back(secondsSince(start));
    }
  }
  std::ranges::sort(seconds);
  fmt::print("{{\"median_s\": {}, \"best_s\": {}, \"update_s\": {}, \"bytes\": {}}}\n",
             seconds[seconds.size() / 2], seconds.front(), updateSeconds / static_cast<double>(steps),
             floats * sizeof(float));
  return 0;
}
