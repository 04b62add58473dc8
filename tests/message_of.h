// Looks at the texts of an error that a test expects.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "data/error.h"

namespace dtrain {

// Returns the message of the Error that `call` throws, or an empty string if it throws none.
inline std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Likewise for the hint, which says what to do.
inline std::string HintOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.hint();
  }
  return "";
}

// Returns both, "message | hint", or "no error".
inline std::string MessageAndHint(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

}  // namespace dtrain

// Expects that the rest, which may have commas, throws an Error with these words in "message | hint".
#define EXPECT_ERROR(words, ...) \
  EXPECT_THAT(::dtrain::MessageAndHint([&] { __VA_ARGS__; }), ::testing::HasSubstr(words))
