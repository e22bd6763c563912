#include "cluster/host_list.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

using Hosts = std::vector<std::string>;

Hosts expanded(std::string_view text) {
  return expandHostList(text, "the list");
}

std::string refusal(std::string_view text) {
  return errorOf<UsageError>([&] { expanded(text); });
}

std::string joined(const Hosts& hosts) {
  std::string text;
  for (const std::string& host : hosts) text += (text.empty() ? "" : ",") + host;
  return text;
}

TEST(HostList, KeepsOrderDuplicatesAndZeros) {
  EXPECT_EQ(joined(expanded("n[1-3,07-09],login")), "n1,n2,n3,n07,n08,n09,login");
  EXPECT_EQ(joined(expanded("tux[2,1-2]")), "tux2,tux1,tux2");
  EXPECT_EQ(joined(expanded("b,a,b")), "b,a,b");
  EXPECT_EQ(joined(expanded("n[009-011]")), "n009,n010,n011");
  EXPECT_EQ(joined(expanded("n[98-101]")), "n98,n99,n100,n101");
  EXPECT_EQ(joined(expanded("n[098-101]")), "n098,n099,n100,n101");
  EXPECT_EQ(joined(expanded("[10-12]")), "10,11,12");
  EXPECT_EQ(joined(expanded("n[0]")), "n0");
  EXPECT_EQ(joined(expanded("n[999999999999999998-999999999999999999]")),
            "n999999999999999998,n999999999999999999");
  EXPECT_EQ(expanded(""), Hosts{});
}

TEST(HostList, VariesTheRightmostBracketFastest) {
  EXPECT_EQ(joined(expanded("rack[0-1]node[1,3]")), "rack0node1,rack0node3,rack1node1,rack1node3");
  EXPECT_EQ(joined(expanded("a[1-2][3-4]")), "a13,a14,a23,a24");
}

TEST(HostList, TakesTextBehindTheLastBracket) {
  EXPECT_EQ(joined(expanded("host-[01-02].example.org,x[1-2]y[3,5]z")),
            "host-01.example.org,host-02.example.org,x1y3z,x1y5z,x2y3z,x2y5z");
  EXPECT_EQ(joined(expanded("n[1-2]:2222")), "n1:2222,n2:2222");
}

TEST(HostList, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(refusal("n[3-1]"),
            "the list 'n[3-1]' is no host list: the range 3-1 runs backwards at character 3");
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"n[1-3", "'[' without a ']' at character 2"},
           {"a,n[1,2", "'[' without a ']' at character 4"},
           {"n1]", "']' without a '[' at character 3"},
           {"n[]", "a number is missing at character 3"},
           {"n[", "a number is missing at character 3"},
           {"n[1-]", "a number is missing at character 5"},
           {"n[-1]", "a number is missing at character 3"},
           {"n[1,]", "a number is missing at character 5"},
           {"n[a-c]", "a number is missing at character 3"},
           {"n[1--3]", "a number is missing at character 5"},
           {"n[1-2-3]", "something else than a number, '-', ',' or ']' is in a bracket at character 6"},
           {"n[1[2]]", "something else than a number, '-', ',' or ']' is in a bracket at character 4"},
           {"a,,b", "a name is missing at character 3"},
           {"a,", "a name is missing at character 3"},
           {",a", "a name is missing at character 1"},
           {"a, b", "no name may have a blank, as at character 3"},
           {"a\nb", "no name may have a character such as the one at character 2"},
           {"n\xc3\xb6", "no name may have a character such as the one at character 2"},
           {"n[1234567890123456789]", "a number has more than 18 digits at character 3"}}) {
    EXPECT_MENTIONS(refusal(text), sentence);
    EXPECT_BEGINS(refusal(text), "the list '");
  }
  EXPECT_MENTIONS(refusal("a\x1b[2J"), R"('a\x1b[2J')") << "no terminal is driven by what others wrote";
}

TEST(HostList, EndsWhereAMemoryWouldBeFull) {
  EXPECT_EQ(expanded("n[1-65536]").size(), 65'536u);
  EXPECT_EQ(expanded("a[0-255]b[0-255]").back(), "a255b255");
  const std::string many = "names more than 65536 hosts; give fewer";
  for (const char* text : {"n[1-65537]", "n[0-999999999999999999]", "n[1-65536],a", "a[0-255]b[0-256]",
                           "a[0-65535][0-65535][0-65535][0-65535][0-65535]", "n[1-40000,1-40000]"}) {
    EXPECT_MENTIONS(refusal(text), many);
  }
  const std::string longest(255, 'a');
  EXPECT_EQ(expanded(longest), Hosts{longest});
  EXPECT_MENTIONS(refusal(longest + "a"), "has a host's name of more than 255 bytes");
  EXPECT_MENTIONS(refusal("n[1-9]" + longest), "has a host's name of more than 255 bytes");
  EXPECT_MENTIONS(refusal(longest.substr(2) + "[99-100,1]"), "has a host's name of more than 255 bytes")
      << "not only the last one's";
  EXPECT_LT(refusal("n[1-65537]" + std::string(1'000'000, 'a')).size(), 400u);
}

TEST(HostList, IsWrittenShort) {
  for (const auto& [hosts, text] : std::vector<std::pair<Hosts, std::string>>{
           {{}, ""},
           {{"n7"}, "n7"},
           {{"login"}, "login"},
           {{"n1", "n2", "n3", "n07", "n08", "n09", "login"}, "n[1-3,07-09],login"},
           {{"n9", "n10", "n11"}, "n[9-11]"},
           {{"n09", "n10", "n11"}, "n[09-11]"},
           {{"n99", "n100"}, "n[99-100]"},
           {{"n099", "n100"}, "n[099-100]"},
           {{"n1", "n1", "n3"}, "n[1,1,3]"},
           {{"n2", "n1"}, "n[2,1]"},
           {{"a1", "b2", "a2"}, "a1,b2,a2"},
           {{"login", "login"}, "login,login"},
           {{"n", "n1", "n2", "n"}, "n,n[1-2],n"},
           {{"host-1.example.org", "host-2.example.org"}, "host-[1-2].example.org"},
           {{"rack0node1", "rack0node2", "rack1node1"}, "rack0node[1-2],rack1node1"},
           {{"n9999999999999999999", "n9999999999999999999"}, "n9999999999999999999,n9999999999999999999"}}) {
    EXPECT_EQ(compressHostList(hosts), text);
    EXPECT_EQ(expanded(text), hosts);
  }
}

TEST(HostList, RefusesHostsThatNoListCanHave) {
  for (const Hosts& hosts :
       {Hosts{""}, Hosts{"a,b"}, Hosts{"n1", "n[2"}, Hosts{"a b"}, Hosts{std::string(256, 'a')}}) {
    EXPECT_MENTIONS(errorOf<UsageError>([&] { compressHostList(hosts); }), "cannot stand in a list of hosts");
  }
}

TEST(HostList, ComesBackFromEveryCompression) {
  std::mt19937 random(1);
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  const Hosts stems = {"n", "n0", "a1b", "rack-", "", "9", "x.y"};
  const Hosts ends = {"", "", "", ".org", "-ib0", "z9"};
  for (int round = 0; round < 2'000; ++round) {
    Hosts hosts;
    for (unsigned count = below(12); count > 0; --count) {
      // Neighbours often, so that there are ranges; now and then across a power of ten, or padded otherwise.
      const unsigned first = below(4) == 0 ? 97 + below(5) : below(12);
      const unsigned width = 1 + below(4);
      const std::string stem = stems[below(static_cast<unsigned>(stems.size()))];
      const std::string end = ends[below(static_cast<unsigned>(ends.size()))];
      if (!stem.empty() && below(4) == 0) hosts.push_back(stem + end);  // often without a number
      for (unsigned number = first; number <= first + below(5); ++number) {
        std::ostringstream name;
        name.width(static_cast<std::streamsize>(width));
        name.fill('0');
        name << number;
        hosts.push_back(stem + name.str() + end);
      }
    }
    const std::string text = compressHostList(hosts);
    ASSERT_EQ(joined(expanded(text)), joined(hosts)) << text;
  }
}

TEST(HostList, IsSplitAtCommasOutsideOfBrackets) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(splitHostList("a:1,n[1-2,4]:1,[::1]:1"), (Names{"a:1", "n[1-2,4]:1", "[::1]:1"}));
  EXPECT_EQ(splitHostList("a,,"), (Names{"a", "", ""}));
}

// Lines of a text and what `scontrol show hostnames` of SLURM 22.05 makes of it, or ERROR.
TEST(HostList, AgreesWithSlurm) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  std::ifstream file(std::filesystem::path(vectors) / "slurm-hostlists.tsv");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const std::string text = line.substr(0, line.find('\t'));
    const std::string hosts = line.substr(line.find('\t') + 1);
    // Newer versions take text behind the last bracket, as we do.
    const bool isNewer = hosts == "ERROR" && text.back() != ']';
    if (hosts == "ERROR" && !isNewer) {
      EXPECT_MENTIONS(refusal(text), "is no host list") << text;
    } else if (isNewer) {
      EXPECT_EQ(expanded(compressHostList(expanded(text))), expanded(text)) << text;
    } else {
      EXPECT_EQ(joined(expanded(text)), hosts) << text;
    }
  }
  EXPECT_GE(lines, 20);
}

}  // namespace
}  // namespace cohort
