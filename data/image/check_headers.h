// Small sets of image files are looked through before a run begins: whoever has put photos together wants to hear of
// all that are no images at once, not of the second one in step 2.
#pragma once

#include <functional>
#include <string>

#include "data/pipeline/quarantine.h"
#include "data/record_source.h"

namespace dtrain::data {

// Larger sets take too long, and one bad file fits into their budget.
inline constexpr int64_t kMostCheckedFiles = 9'999;

// Reads the headers of all images, where each is a file of its own and there are few enough. Throws DataError that
// names the first bad ones where they are more than the budget; `note` hears of every one before, a line each.
void RequireGoodHeaders(const RecordSource& source, const QuarantineOptions& options,
                        const std::function<void(const std::string&)>& note);

}  // namespace dtrain::data
