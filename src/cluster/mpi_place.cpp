#include "cluster/mpi_place.h"

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr const char* kRank = "OMPI_COMM_WORLD_RANK";
constexpr const char* kSize = "OMPI_COMM_WORLD_SIZE";
constexpr const char* kLocalRank = "OMPI_COMM_WORLD_LOCAL_RANK";
constexpr const char* kLocalSize = "OMPI_COMM_WORLD_LOCAL_SIZE";

// mpirun never gets these wrong, but a script that sets them for it may.
void requireOrder(bool isRight, const char* name, int number, const char* limitName, int limit) {
  if (isRight) return;
  throw UsageError(fmt::format("{} is {}, and {} is {}; start the program by mpirun, or unset OMPI_*", name,
                               number, limitName, limit));
}

}  // namespace

std::optional<MpiPlace> findMpiPlace(const Environment& environment) {
  const std::optional<int> rank = numberOf(environment, kRank);
  if (!rank) {
    const std::optional<int> pmix = numberOf(environment, "PMIX_RANK");
    return pmix ? std::optional(MpiPlace{.rank = *pmix}) : std::nullopt;
  }
  const int size = requireNumber(environment, kSize, fmt::format("{} is", kRank));
  requireOrder(*rank < size, kRank, *rank, kSize, size);
  const std::optional<int> localRank = numberOf(environment, kLocalRank);
  const std::optional<int> localSize = numberOf(environment, kLocalSize);
  if (localSize) requireOrder(*localSize <= size, kLocalSize, *localSize, kSize, size);
  if (localRank && localSize)
    requireOrder(*localRank < *localSize, kLocalRank, *localRank, kLocalSize, *localSize);
  return MpiPlace{.rank = *rank, .size = size, .localRank = localRank, .localSize = localSize};
}

}  // namespace cohort
