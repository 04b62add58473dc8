#include "data/image/check_images.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"
#include "data/joined.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kBeginningBytes = 1 << 16;  // holds header and EXIF data of nearly every image
constexpr size_t kFilesPerThread = 64, kRecordsPerThread = 4;
constexpr size_t kMostListed = 200;
constexpr size_t kMostInMessage = 3;
constexpr int64_t kMostFilesLookedAt = 1000, kMostRecordsLookedAt = 64;

bool AreFiles(const RecordSource& source) {
  return source.kind() == RecordKind::kEncodedImage && !source.Place(0).offset;
}

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

// Reads no more of a file than its beginning if the orientation is there.
int OrientationOf(const RecordSource& source, int64_t index, bool is_file) {
  try {
    if (!is_file) return ExifOrientation(source.Read(index));
    const std::vector<uint8_t> bytes = ReadBeginning(source.Place(index).file, kBeginningBytes);
    const Codec* codec = FindCodec(bytes);
    return codec != nullptr && codec->exif_is_last ? ExifOrientation(source.Read(index)) : ExifOrientation(bytes);
  } catch (const DataError&) {  // whoever reads the image reports it
    return kUpright;
  }
}

}  // namespace

void RequireGoodHeaders(const RecordSource& source, const QuarantineOptions& options,
                        const std::function<void(const std::string&)>& note) {
  if (!AreFiles(source) || source.size() > kMostCheckedFiles) return;
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
  throw DataError(options.split + ": " + CountOf(bad, "bad record") + " of " + std::to_string(source.size()) +
                      ", and the budget is " + std::to_string(budget) + ":" + first,
                  options.strict ? "--strict_data allows none: repair or remove them, or leave the flag out"
                                 : "repair or remove them, or raise --max_bad_records (a fraction of all records)");
}

std::string SayTurned(const RecordSource& source, const std::string& what) {
  if (source.kind() != RecordKind::kEncodedImage) return "";
  const bool are_files = AreFiles(source);
  const int64_t looked_at = std::min(source.size(), are_files ? kMostFilesLookedAt : kMostRecordsLookedAt);
  std::atomic<int64_t> turned = 0;
  const auto look = [&](size_t i) {
    const auto index = static_cast<int64_t>(static_cast<double>(i) * static_cast<double>(source.size()) /
                                            static_cast<double>(looked_at));
    if (OrientationOf(source, index, are_files) != kUpright) ++turned;
  };
  InParallel(static_cast<size_t>(looked_at), look, are_files ? kFilesPerThread : kRecordsPerThread);
  if (turned == 0) return "";
  return what + ": " + std::to_string(turned) + " of " + std::to_string(looked_at) +
         (looked_at < source.size() ? " images that were looked at" : " images") +
         " have an EXIF orientation and are used as they are stored, as with torchvision; --exif_orientation "
         "turns them upright";
}

}  // namespace dtrain::data
