#include "base/test_error.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cohort {
namespace {

TEST(ErrorOf, IsTheMessageOfTheErrorThatIsAskedFor) {
  EXPECT_EQ(errorOf<UsageError>([] { throw UsageError("use less"); }), "use less");
  EXPECT_EQ(errorOf<UsageError>([] {}), "no error");
  EXPECT_THROW(errorOf<UsageError>([] { throw IoError("the disk is full"); }), IoError);
}

TEST(Messages, AreComparedByTheirParts) {
  EXPECT_MENTIONS("the disk is full", "disk");
  EXPECT_BEGINS("the disk is full", "the disk");
  EXPECT_FALSE(mentions("the disk is full", "disc"));
  EXPECT_FALSE(begins("the disk is full", "disk"));
  EXPECT_STREQ(mentions("the disk is full", "disc").message(),
               "\"the disk is full\" does not mention \"disc\"");
}

}  // namespace
}  // namespace cohort
