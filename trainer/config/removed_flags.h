// Flags that earlier versions had. Typing one is a mistake whose message says why it went; a run's config.json may name
// it, which changes nothing.
#pragma once

#include <string_view>

namespace dtrain::config {

struct RemovedFlag {
  std::string_view name;  // with underscores
  bool takes_value;       // false: a boolean, which may have been typed with `no` in front
  std::string_view why;   // why it went, and what to do
};

// Returns the row of the flag `name` (with underscores, perhaps with `no` in front), or null.
const RemovedFlag* FindRemoved(std::string_view name);

}  // namespace dtrain::config
