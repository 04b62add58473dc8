// Labels are 0-based inside; some data sets count from 1. One rule for all formats, so that nothing is guessed twice.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

// 1 for labels that are exactly 1…C, 0 for exactly 0…C−1, nothing for any others. −1 is no label.
std::optional<int64_t> LabelOffsetOf(std::vector<int64_t> labels);

// What to subtract from every label: `said` where the user said it; else LabelOffsetOf. Throws DataError where that
// is nothing. `labels` may hold −1 for records without one. `where_is`: the first record with a label, for messages.
int64_t ResolveLabelOffset(std::vector<int64_t> labels, std::optional<int64_t> said,
                           const std::function<std::string(int64_t label)>& where_is);

}  // namespace dtrain::data
