// Two ways to give every worker the sum of all workers' buffers, in turns; prints one line of JSON on the first worker.
//
//   mpirun -np 2 --bind-to none bench_reduction 240 9
//
// The arguments are millions of bytes and rounds. "exchange" is Cohort's own, in the order of its tree of grains, as a training step
// does it when backward has finished everything at once; "allreduce" is MPI_Allreduce, in place, on pieces of 4 MiB.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/mpi_transport.h"
#include "sync/shard_exchange.h"

namespace {

using namespace cohort;

constexpr std::int64_t kRow = 1024;

// A dense layer's matrix.
ParameterLayout layoutOf(std::size_t floats) {
  return ParameterLayout({{.name = "fc.weight",
                           .shape = {static_cast<std::int64_t>(floats) / kRow, kRow},
                           .initializer = Initializer::constant(0),
                           .rowsMayFinishApart = true}});
}

void fillOnes(std::span<float> values, int rank) {
  std::ranges::fill(values, 1.0F + static_cast<float>(rank));
}

void requireSum(std::span<const float> values, int size) {
  const float expected = static_cast<float>(size * (size + 1)) / 2;
  if (!std::ranges::all_of(values, [&](float value) { return value == expected; })) {
    throw PeerError("the sum is wrong");
  }
}

double secondsOf(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double medianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int measure(std::size_t floats, int rounds) {
  const MpiSession session;
  Communicator workers(mpiTransport(session));
  const ParameterLayout layout = layoutOf(floats);
  const BucketPlan plan(layout, workers.size());
  const GrainTree tree(workers.size());
  FloatBuffer gradient(layout.size());
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(workers.size()));
  for (int rank = 0; rank < workers.size(); ++rank) nodes[static_cast<std::size_t>(rank)] = {tree.leaf(rank)};
  ShardExchange exchange(workers, plan,
                         {.tree = tree,
                          .nodesOf = nodes,
                          .arenas = {gradient.span()},
                          .weights = gradient.span(),
                          .apply =
                              [&](std::size_t offset, std::span<const float> sum) {
                                if (sum.data() != gradient.data() + offset)
                                  std::ranges::copy(sum, gradient.data() + offset);
                              }},
                         0);
  std::vector<double> exchanges;
  std::vector<double> allreduces;
  for (int round = 0; round <= rounds; ++round) {
    fillOnes(gradient.span(), workers.rank());
    const double exchanged = secondsOf([&] {
      exchange.begin();
      for (PieceIndex piece = 0; piece < static_cast<int>(layout.pieces().size()); ++piece) {
        exchange.finished(tree.leaf(workers.rank()), piece);
      }
      exchange.end("the sum");
    });
    requireSum(gradient.span(), workers.size());
    fillOnes(gradient.span(), workers.rank());
    const double reduced = secondsOf([&] {
      constexpr std::size_t kPiece = std::size_t{1} << 20;
      for (std::size_t at = 0; at < layout.size(); at += kPiece) {
        MPI_Allreduce(MPI_IN_PLACE, gradient.data() + at,
                      static_cast<int>(std::min(kPiece, layout.size() - at)), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      }
    });
    requireSum(gradient.span(), workers.size());
    if (round == 0) continue;  // touches memory for the first time
    exchanges.push_back(exchanged);
    allreduces.push_back(reduced);
  }
  if (workers.isFirst()) {
    fmt::print("{{\"bytes\": {}, \"exchange_s\": {:.6f}, \"allreduce_s\": {:.6f}}}\n",
               layout.size() * sizeof(float), medianOf(exchanges), medianOf(allreduces));
  }
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int index) { return argc > index ? std::strtoull(argv[index], nullptr, 10) : 0; };
  const std::size_t floats = number(1) * 1'000'000 / sizeof(float);
  const int rounds = static_cast<int>(number(2));
  if (floats < kRow || rounds < 1) {
    fmt::print(stderr, "usage: mpirun -np 2 bench_reduction MEGABYTES ROUNDS\n");
    return EXIT_FAILURE;
  }
  try {
    return measure(floats, rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_reduction: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
