#include "cli/center_options.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

TEST(CenterOptions, KnowAddressesThatOnlyThisMachineReaches) {
  for (const char* address : {"127.0.0.1:7000", "127.255.0.3:0", "localhost:1", "[::1]:7000", "unix:/a/b",
                              "[0:0:0:0:0:0:0:1]:7000"}) {
    EXPECT_TRUE(isPrivateAddress(address)) << address;
  }
  for (const char* address :
       {"127.example.com:7000", "127.0.0.1.example.com:7000", "128.0.0.1:7000", "0.0.0.0:7000", "[::]:7000",
        "localhost.example.com:1", "127.0.0:7000", "[::1:7000", "first:7000", "[::2]:7000"}) {
    EXPECT_FALSE(isPrivateAddress(address)) << address;
  }
}

TEST(CenterOptions, OtherMachinesNeedCredentials) {
  EXPECT_FALSE(credentialsFor({"127.0.0.1:7000", "unix:/a"}, "", false));
  EXPECT_FALSE(credentialsFor({"first:7000"}, "", true));
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    credentialsFor({"127.0.0.1:7000", "127.example.com:7000"}, "", false);
                  }),
                  "127.example.com:7000 is on another machine: give --credentials FILE");
}

TEST(CenterOptions, ASocketsPathHasALimit) {
  const std::string longest = "unix:/" + std::string(106, 'x');
  EXPECT_EQ(parseAddresses(longest, "--join").size(), 1U);
  EXPECT_MENTIONS(errorOf<UsageError>([&] { parseAddresses(longest + "x", "--join"); }),
                  "is too long: it has 108 bytes, and the system takes 107");
}

TEST(CenterOptions, NothingThatOthersSayMovesATerminalsCursor) {
  EXPECT_EQ(printable("vm:17 \xc3\xa4"), "vm:17 \xc3\xa4");
  EXPECT_EQ(printable("a\x1b[2Jb\r\n\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(printable("\xff\xc2"), "\\xff\\xc2");
}

}  // namespace
}  // namespace cohort
