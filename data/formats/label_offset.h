// Finds out whether the labels of a data set count from 0 or from 1; inside dtrain they count from 0. All formats share
// this one rule, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

// Returns 1 for labels that are exactly 1…C, 0 for exactly 0…C−1 or for no labels, and an empty optional for any
// others. −1 means that a record has no label.
std::optional<int64_t> LabelOffsetOf(std::vector<int64_t> labels);

// Returns `known` with the label offset filled in and, if the number of classes is unknown, that number (from the
// highest label). The offset is `user_offset` if the user gave one; else that of `known`; else the only one with which
// the labels fit the number of classes; else, if that number is unknown, LabelOffsetOf. `labels` may hold −1 for
// records without a label; `where_is` returns the place of the first record with a label, for messages. Throws
// DataError if neither or both of the offsets 0 and 1 fit, or if a label lies outside the classes.
Classes ResolveLabels(std::vector<int64_t> labels, std::optional<int64_t> user_offset, Classes known,
                      const std::function<std::string(int64_t label)>& where_is);

// Returns `known` with the class names that the set's own file `path` gives; `names` may be empty. Throws DataError if
// they differ from the known names or number of classes.
Classes WithNames(Classes known, const std::vector<std::string>& names, const std::string& path);

}  // namespace dtrain::data
