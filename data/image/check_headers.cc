#include "data/image/check_headers.h"

#include <algorithm>
#include <vector>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/image/codecs.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kBeginningBytes = 1 << 16;  // holds the header of nearly every image
constexpr size_t kFilesPerThread = 64;
constexpr size_t kMostListed = 200;
constexpr size_t kMostInMessage = 3;

bool HasGoodBeginning(const std::string& path) {
  try {
    ReadImageSize(ReadBeginning(path, kBeginningBytes));
    return true;
  } catch (const DataError&) {
    return false;
  }
}

// Returns why the header of a record is bad, or an empty string if it is good.
std::string ProblemOf(const RecordSource& source, int64_t index) {
  if (HasGoodBeginning(source.Place(index).file)) return "";
  try {
    ReadImageSize(source.Read(index));
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

}  // namespace

void RequireGoodHeaders(const RecordSource& source, const QuarantineOptions& options,
                        const std::function<void(const std::string&)>& note) {
  const bool are_files = source.kind() == RecordKind::kEncodedImage && !source.Place(0).offset;
  if (!are_files || source.size() > kMostCheckedFiles) return;
  std::vector<std::string> problems(static_cast<size_t>(source.size()));
  const auto check = [&](size_t i) { problems[i] = ProblemOf(source, static_cast<int64_t>(i)); };
  InParallel(problems.size(), check, kFilesPerThread);
  const auto bad = problems.size() - static_cast<size_t>(std::count(problems.begin(), problems.end(), ""));
  const int64_t budget = BadRecordBudget(source.size(), options);
  if (static_cast<int64_t>(bad) <= budget) return;
  std::string first;
  size_t listed = 0;
  for (size_t i = 0; i < problems.size() && listed < kMostListed; ++i) {
    if (problems[i].empty()) continue;
    const std::string problem = source.Location(static_cast<int64_t>(i)) + ": " + problems[i];
    note("bad record " + problem);
    if (listed++ < kMostInMessage) first += (first.empty() ? " " : "; ") + problem;
  }
  if (bad > listed) note(std::to_string(bad - listed) + " more bad records: dtrain_data verify lists them all");
  if (bad > kMostInMessage) first += "; and " + std::to_string(bad - kMostInMessage) + " more, listed above";
  throw DataError(options.split + ": " + std::to_string(bad) + (bad == 1 ? " bad record" : " bad records") + " of " +
                      std::to_string(source.size()) + ", and the budget is " + std::to_string(budget) + ":" + first,
                  options.strict ? "--strict_data allows none: repair or remove them, or leave the flag out"
                                 : "repair or remove them, or raise --max_bad_records (a fraction of all records)");
}

}  // namespace dtrain::data
