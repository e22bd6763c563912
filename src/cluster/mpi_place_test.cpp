#include "cluster/mpi_place.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

Environment mpirun(const char* rank, const char* size, const char* localRank, const char* localSize) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", localRank},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", localSize}};
}

TEST(MpiPlace, IsWhatMpirunSays) {
  const MpiPlace place = findMpiPlace(mpirun("3", "4", "1", "2")).value();
  EXPECT_EQ(place, (MpiPlace{.rank = 3, .size = 4, .localRank = 1, .localSize = 2}));
  EXPECT_FALSE(place.isOneHost());
  EXPECT_TRUE(findMpiPlace(mpirun("1", "2", "1", "2"))->isOneHost());
  EXPECT_EQ(findMpiPlace({}), std::nullopt);
}

TEST(MpiPlace, IsARankAloneUnderPmix) {
  const MpiPlace place = findMpiPlace({{"PMIX_RANK", "2"}}).value();
  EXPECT_EQ(place, (MpiPlace{.rank = 2}));
  EXPECT_FALSE(place.isOneHost()) << "nobody says how many there are";
  Environment both = mpirun("1", "2", "0", "1");
  both["PMIX_RANK"] = "1";
  EXPECT_EQ(findMpiPlace(both), findMpiPlace(mpirun("1", "2", "0", "1")));
}

TEST(MpiPlace, RefusesWhatCannotBe) {
  const auto refusal = [](const Environment& environment) {
    return errorOf<UsageError>([&] { findMpiPlace(environment); });
  };
  EXPECT_EQ(refusal(mpirun("4", "4", "0", "2")),
            "OMPI_COMM_WORLD_RANK is 4, and OMPI_COMM_WORLD_SIZE is 4; start the program by mpirun, or unset "
            "OMPI_*");
  EXPECT_BEGINS(refusal(mpirun("0", "4", "2", "2")), "OMPI_COMM_WORLD_LOCAL_RANK is 2, and");
  EXPECT_BEGINS(refusal(mpirun("0", "4", "2", "5")),
                "OMPI_COMM_WORLD_LOCAL_SIZE is 5, and OMPI_COMM_WORLD_SIZE is 4");
  EXPECT_BEGINS(refusal(mpirun("x", "4", "2", "2")), "the environment variable OMPI_COMM_WORLD_RANK is 'x'");
  EXPECT_BEGINS(refusal({{"OMPI_COMM_WORLD_RANK", "0"}}), "OMPI_COMM_WORLD_SIZE is not set");
  EXPECT_BEGINS(refusal({{"PMIX_RANK", ""}}), "the environment variable PMIX_RANK is ''");
}

}  // namespace
}  // namespace cohort
