// The names that a split may have on disk: data sets agree on `train`, but not on `val`.
#pragma once

#include <string>
#include <vector>

namespace dtrain::data {

// Returns the names to try for a split, in order: {"val", "validation", "valid"} for val, else the split's name alone.
std::vector<std::string> SplitNames(const std::string& split);

// Whether this is one of the names of the validation split.
bool IsValidationName(const std::string& split);

}  // namespace dtrain::data
