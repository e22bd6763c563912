#include "cli/visible_devices.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

TEST(VisibleDevices, AreSomeOfTheAllowedOnes) {
  const std::vector<int> allowed{0, 1, 2, 3, 8};
  EXPECT_EQ(parseVisibleDevices("0-3", allowed, "--devices-visible"), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(parseVisibleDevices("8,2,0", allowed, "--devices-visible"), (std::vector<int>{0, 2, 8}));
}

TEST(VisibleDevices, ThatAreNotThereAreRefused) {
  const auto messageOf = [](const std::string& text) {
    return errorOf<UsageError>([&] { parseVisibleDevices(text, {0, 1, 8}, "--devices-visible"); });
  };
  EXPECT_EQ(messageOf("0-2"),
            "--devices-visible 0-2 names core 2, which this process may not use or the machine does not "
            "have; it may "
            "use 0-1,8");
  EXPECT_MENTIONS(messageOf("a"), "--devices-visible takes numbers and ranges");
  EXPECT_MENTIONS(messageOf("1,1"), "has 1 twice");
  EXPECT_MENTIONS(messageOf("0-99999999"), "more than 65536");
}

}  // namespace
}  // namespace cohort
