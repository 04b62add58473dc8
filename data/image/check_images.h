// Looks at the images of a set before a run begins. A user who has just put photos together then sees at once all files
// that are no images, and not only the first ones that training meets, and hears of those that are not stored upright.
#pragma once

#include <functional>
#include <string>

#include "data/pipeline/quarantine.h"
#include "data/record_source.h"

namespace dtrain::data {

// Larger sets take too long to check, and the run copes with a few bad files there.
inline constexpr int64_t kMostCheckedFiles = 9'999;

// Reads the headers of all images if each is a file of its own and there are at most kMostCheckedFiles. If more headers
// are bad than the budget of `options` allows, passes one line for each of the first 200 to `note`, and throws
// DataError that names the first three.
void RequireGoodHeaders(const RecordSource& source, const QuarantineOptions& options,
                        const std::function<void(const std::string&)>& note);

// Returns a sentence on images that are not stored upright, but read as they are stored; an empty string if there are
// none. Looks at all files of a small set, and at some of a large one. `what` is the name of the split or input.
std::string SayTurned(const RecordSource& source, const std::string& what);

}  // namespace dtrain::data
