// For tests only: what an action that fails says, and what is expected of a message.
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace cohort {

// The message of the Error that `action` throws; "no error" where it throws nothing. Others pass through, and fail the test.
template <class Error, class Action>
std::string errorOf(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline testing::AssertionResult mentions(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not mention \"" << part << "\"";
}

inline testing::AssertionResult begins(std::string_view text, std::string_view beginning) {
  if (text.starts_with(beginning)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not begin with \"" << beginning << "\"";
}

}  // namespace cohort

#define EXPECT_MENTIONS(text, part) EXPECT_TRUE(::cohort::mentions(text, part))
#define EXPECT_BEGINS(text, beginning) EXPECT_TRUE(::cohort::begins(text, beginning))
