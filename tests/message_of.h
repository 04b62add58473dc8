// What an error says that is expected.
#pragma once

#include <functional>
#include <string>

#include "data/error.h"

namespace dtrain {

// Empty where nothing is thrown.
inline std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What it tells to do.
inline std::string HintOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.hint();
  }
  return "";
}

}  // namespace dtrain
