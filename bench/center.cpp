// One worker and one server of a center: how long it takes to send a gradient and to have new weights.
//
//   bench_center ADDRESS CREDENTIALS|- FLOATS STEPS    ADDRESS as `cohort serve` says it
//
// Prints "begin" when the first step is done (memory is there then, and everybody is awake) and "end" after the last, each time waiting
// for a line of input, so that somebody can look at the server's processor time between; then a line of JSON.
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

void sayAndWait(const char* what) {
  fmt::print("{}\n", what);
  std::fflush(stdout);
  for (int c = std::getchar(); c != EOF && c != '\n';) c = std::getchar();
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
  Step step = 0;
  {
    CenterClient client(servers, {});
    client.join();
    client.open(setup, {{"weights", weights.span()}});
    client.enter(setup, weights.span());
    for (CenterClient::Order order = client.next(); order.kind != CenterClient::Order::Kind::Over;) {
      if (order.kind == CenterClient::Order::Kind::End) {
        sayAndWait("end");
        updateSeconds = fetchStatus(*servers, 10).front().updateSeconds;
        client.settle();
        order = client.next();
        continue;
      }
      if (++step == 2) sayAndWait("begin");
      const Clock::time_point start = Clock::now();
      constexpr std::size_t kBucket = std::size_t{1} << 20;
      for (std::size_t at = 0; at < floats; at += kBucket)
        client.push(0, {at, std::min(floats, at + kBucket)}, gradient.span(), {});
      client.finish(std::vector<LossSum>(1));
      order = client.next();
      if (step > 1) seconds.push_back(secondsSince(start));
    }
  }
  std::ranges::sort(seconds);
  fmt::print("{{\"median_s\": {}, \"best_s\": {}, \"update_s\": {}, \"bytes\": {}}}\n",
             seconds[seconds.size() / 2], seconds.front(), updateSeconds / static_cast<double>(steps),
             floats * sizeof(float));
  return 0;
}
