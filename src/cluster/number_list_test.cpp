#include "cluster/number_list.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

using Numbers = std::vector<int>;

std::string refusal(std::string_view text) {
  return errorOf<UsageError>([&] { parseNumberList(text, "--cores"); });
}

TEST(NumberList, IsNumbersAndRanges) {
  EXPECT_EQ(parseNumberList("7", "--cores"), (Numbers{7}));
  EXPECT_EQ(parseNumberList("8,0-3,5-5", "--cores"), (Numbers{8, 0, 1, 2, 3, 5}));
  EXPECT_EQ(parseNumberList("0-65535", "--cores").size(), 65'536u);
  EXPECT_EQ(parseNumberList("2147483647", "--cores"), (Numbers{2'147'483'647}));
}

TEST(NumberList, SaysWhatIsWrong) {
  for (const char* text : {"", "a", "1,", ",1", "1-", "-1", "1-2-3", "1 ,2", "+1", "99999999999", "1.5"}) {
    EXPECT_BEGINS(refusal(text), "--cores takes numbers and ranges such as 0-3,8, not '");
  }
  EXPECT_EQ(refusal("0,3-1"), "--cores: the range 3-1 runs backwards; write 1-3");
  EXPECT_EQ(refusal("0-3,2"), "--cores has 2 twice; leave one out");
  EXPECT_EQ(refusal("0-65536"), "--cores has more than 65536 numbers; give fewer");
  EXPECT_EQ(refusal("0-65535,70000"), "--cores has more than 65536 numbers; give fewer");
  EXPECT_EQ(refusal("0-2147483647"), "--cores has more than 65536 numbers; give fewer");
  EXPECT_EQ(refusal("2147483000-2147483647,2147483647"), "--cores has 2147483647 twice; leave one out");
}

TEST(NumberList, IsWrittenShort) {
  EXPECT_EQ(numberListText({}), "");
  EXPECT_EQ(numberListText({4}), "4");
  EXPECT_EQ(numberListText({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(numberListText({3, 2, 0, 1}), "3,2,0-1");
}

}  // namespace
}  // namespace cohort
