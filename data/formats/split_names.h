// What a split may be called on disk: people's data sets agree on `train` but not on `val`.
#pragma once

#include <string>
#include <vector>

namespace dtrain::data {

// The names to try for a split, in order: {"val", "validation", "valid"} for val, else the split alone.
std::vector<std::string> SplitNames(const std::string& split);

// Whether the split is the validation split by one of its names.
bool IsValidationName(const std::string& split);

}  // namespace dtrain::data
