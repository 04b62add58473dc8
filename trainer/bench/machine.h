// Describes the machine that a benchmark ran on, without which its figures mean nothing.
#pragma once

#include <nlohmann/json.hpp>

namespace dtrain::bench {

// Returns threads (of an operator), cpu (its name), cores (that this process may use) and torch (LibTorch's version).
nlohmann::ordered_json DescribeMachine();

}  // namespace dtrain::bench
