// The machine that a benchmark ran on: a figure without it means nothing.
#pragma once

#include <nlohmann/json.hpp>

namespace dtrain::loop {

// threads (of an operator), cpu, cores (that this process may use), torch.
nlohmann::ordered_json DescribeMachine();

}  // namespace dtrain::loop
