// What the labels of a data set mean. The training split says it; its other splits, and whoever evaluates the model
// later, are given it, for a part of a set need not have every class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct Classes {
  std::vector<std::string> names = {};       // in label order; empty: classes have numbers only
  int64_t count = 0;                         // labels are below it; 0: unknown
  std::optional<int64_t> label_offset = {};  // what the files call the first class; nullopt: unknown
  bool operator==(const Classes&) const = default;
};

}  // namespace dtrain::data
