// Small sets of image files are looked through before a run begins: whoever has put photos together wants to hear of
// all that are no images at once, not of the second one in step 2.
#pragma once

#include "data/quarantine.h"
#include "data/record_source.h"

namespace dtrain::data {

// Larger sets take too long, and one bad file fits into their budget.
inline constexpr int64_t kMostCheckedFiles = 9'999;

// Reads the headers of all images, where each is a file of its own and there are few enough. Throws DataError that
// names every bad one where they are more than the budget.
void RequireGoodHeaders(const RecordSource& source, const QuarantineOptions& options);

}  // namespace dtrain::data
