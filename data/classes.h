// The meaning of a data set's labels. The training split defines it. The other splits and programs that use the model
// later receive it, because a part of a data set need not contain every class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct Classes {
  std::vector<std::string> names = {};       // in label order; empty if classes have only numbers
  int64_t count = 0;                         // every label is below it; 0 if unknown
  std::optional<int64_t> label_offset = {};  // the number that the files give the first class; empty if unknown
  bool operator==(const Classes&) const = default;
};

}  // namespace dtrain::data
