#include "data/formats/split_names.h"

namespace dtrain::data {

std::vector<std::string> SplitNames(const std::string& split) {
  if (split == "val") return {"val", "validation", "valid"};
  return {split};
}

bool IsValidationName(const std::string& split) { return split == "val" || split == "validation" || split == "valid"; }

}  // namespace dtrain::data
