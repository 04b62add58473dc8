// Labels are 0-based inside; some data sets count from 1. One rule for all formats, so that nothing is guessed twice.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/classes.h"

namespace dtrain::data {

// 1 for labels that are exactly 1…C, 0 for exactly 0…C−1, nothing for any others. −1 is no label.
std::optional<int64_t> LabelOffsetOf(std::vector<int64_t> labels);

// What the labels mean: `known`, completed by the offset, and by the highest label where the number of classes is
// unknown. The offset is `said` where the user said it; else what is known; else the one with which the labels fit the
// number of classes; else, where that is unknown, too, LabelOffsetOf. Throws DataError where none or both of 0 and 1
// fit, and for labels outside the classes. `labels` may hold −1 for records without one. `where_is`: the first record
// with a label, for messages.
Classes ResolveLabels(std::vector<int64_t> labels, std::optional<int64_t> said, Classes known,
                      const std::function<std::string(int64_t label)>& where_is);

// `known` with the names that a set has of its own, in the file `path`; there may be none. Throws DataError where they
// differ from those that are known already.
Classes WithNames(Classes known, const std::vector<std::string>& names, const std::string& path);

}  // namespace dtrain::data
