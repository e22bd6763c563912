#include "cluster/address.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

using Addresses = std::vector<Address>;

std::string refusal(std::string_view text) {
  return errorOf<UsageError>([&] { parseAddressList(text, "--worker-hosts"); });
}

TEST(Address, IsAHostAndAPort) {
  EXPECT_EQ(parseAddress("node_1.example-site.org:2222", "x"), (Address{"node_1.example-site.org", 2222}));
  EXPECT_EQ(parseAddress("10.0.0.1:1", "x"), (Address{"10.0.0.1", 1}));
  EXPECT_EQ(parseAddress("a:65535", "x"), (Address{"a", 65535}));
  EXPECT_EQ(parseAddress("[fe80::1%eth0]:2222", "x"), (Address{"fe80::1%eth0", 2222}));
  for (const char* text : {"a:1", "10.0.0.1:80", "[::1]:2222"})
    EXPECT_EQ(toText(parseAddress(text, "x")), text);
}

TEST(Address, MayBeAHostList) {
  EXPECT_EQ(parseAddressList("a:1,n[1-2,04]:2222,[::1]:3", "x"),
            (Addresses{{"a", 1}, {"n1", 2222}, {"n2", 2222}, {"n04", 2222}, {"::1", 3}}));
}

TEST(Address, SaysWhatIsWrong) {
  EXPECT_EQ(refusal("a:1,node1"),
            "--worker-hosts has 'node1' without a port; write HOST:PORT, such as node1:2222");
  EXPECT_MENTIONS(refusal("[::1]"), "has '[::1]' without a port");
  EXPECT_EQ(refusal("a:0"), "--worker-hosts has 'a:0', whose port is '0'; ports are numbers from 1 to 65535");
  for (const char* text : {"a:65536", "a:-1", "a:", "a:http", "a:1:2", "a:99999999999", "a:2222/x", "[::1]:x",
                           "grpc://a:2222"}) {
    EXPECT_MENTIONS(refusal(text), "ports are numbers from 1 to 65535") << text;
  }
  for (const char* text : {":2222", "::1:2222", "a/b:2222", "[::1:2222", "[::1]x:2222", "[:/]:1"}) {
    EXPECT_MENTIONS(refusal(text), "where no host's name comes before the port") << text;
  }
  EXPECT_MENTIONS(refusal("a:1,"), "has an address missing");
  EXPECT_MENTIONS(refusal("a:1, b:1"), "no name may have a blank");
  EXPECT_MENTIONS(refusal("n[2-1]:1"), "runs backwards");
  EXPECT_MENTIONS(refusal("n[1-65536]:1,n[1-65536]:2"), "names more than 65536 addresses");
}

}  // namespace
}  // namespace cohort
