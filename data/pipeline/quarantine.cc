#include "data/pipeline/quarantine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "data/error.h"
#include "data/joined.h"
#include "data/shallow_json.h"
#include "data/storage.h"
#include "data/written_file.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostEarlierBytes = uint64_t{256} << 20;  // about a million bad records

}  // namespace

int64_t BadRecordBudget(int64_t dataset_size, const QuarantineOptions& options) {
  constexpr double kUsual = 1e-4;
  constexpr int64_t kFew = 10, kPart = 20;
  if (options.strict) return 0;
  // The subtraction keeps a product that should be a whole number from being rounded up because of its last bit.
  const double share = options.max_bad_records.value_or(kUsual) * static_cast<double>(dataset_size);
  const auto budget = static_cast<int64_t>(std::ceil(share - 1e-9));
  return options.max_bad_records ? budget : std::max(budget, std::min(kFew, (dataset_size + kPart - 1) / kPart));
}

std::string JsonLine(const BadRecord& record) {
  const nlohmann::ordered_json line = {{"split", record.split},
                                       {"index", record.index},
                                       {"file", record.place.file},
                                       {"offset", record.place.offset.value_or(0)},
                                       {"reason", record.reason}};
  return JsonText(line);
}

Quarantine::Quarantine(int64_t dataset_size, QuarantineOptions options)
    : options_(std::move(options)), dataset_size_(dataset_size), budget_(BadRecordBudget(dataset_size, options_)) {}

int64_t Quarantine::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(seen_.size());
}

void Quarantine::Recall(int64_t index) {
  const std::lock_guard lock(mutex_);
  seen_.insert(index);
}

void Quarantine::Add(int64_t index, const RecordPlace& place, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (seen_.insert(index).second) {
    const BadRecord record{options_.split, index, place, reason};
    if (!options_.path.empty()) Append(record);
    if (options_.on_bad_record) options_.on_bad_record(record);
  }
  const auto count = static_cast<int64_t>(seen_.size());
  if (count <= budget_) return;
  throw DataError(
      options_.split + ": " + CountOf(count, "bad record") + " of " + std::to_string(dataset_size_) +
          ", and the budget is " + std::to_string(budget_) + "; the latest is " + ToText(place) + ": " + reason,
      options_.strict ? "--strict_data allows none: repair or remove the file, or leave the flag out"
                      : "repair or remove the files, or raise --max_bad_records (a fraction of all records)");
}

void Quarantine::ReadEarlierLines() {
  if (std::exchange(earlier_lines_read_, true)) return;
  try {
    if (!Exists(options_.path)) return;
    const std::vector<uint8_t> earlier = ReadBeginning(options_.path, kMostEarlierBytes);
    ends_in_part_ = !earlier.empty() && earlier.back() != '\n';
    std::istringstream lines(std::string(earlier.begin(), earlier.end()));
    for (std::string line; std::getline(lines, line);) earlier_lines_.insert(std::move(line));
  } catch (const DataError&) {  // Append then reports why
  }
}

void Quarantine::Append(const BadRecord& record) {
  const std::string line = JsonLine(record);
  ReadEarlierLines();
  if (earlier_lines_.contains(line)) return;
  const std::string text = (ends_in_part_ ? "\n" : "") + line + "\n";
  std::error_code shown_below;
  std::filesystem::create_directories(std::filesystem::path(options_.path).parent_path(), shown_below);
  const int descriptor = OpenOrCreate(options_.path, O_WRONLY | O_APPEND);
  const bool written = descriptor >= 0 && AppendWhole(descriptor, text);
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!written) {
    throw Error(ExitCode::kStorage,
                "cannot write the list of bad records to " + options_.path + ": " + std::strerror(error),
                HintOnWriting(error));
  }
  ends_in_part_ = false;
}

std::vector<BadRecord> ReadBadRecords(const std::string& path) {
  std::vector<BadRecord> records;
  std::istringstream lines(TextBeside(path));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json object = ParseObject(line), nothing;
    if (!object.is_object() || !object.value("index", nothing).is_number_unsigned()) continue;
    const auto text = [&](const char* key) {
      const nlohmann::json value = object.value(key, nothing);
      return value.is_string() ? value.get<std::string>() : "";
    };
    records.push_back({text("split"), object["index"].get<int64_t>(), {text("file")}, text("reason")});
  }
  return records;
}

bool LiesIn(const std::string& folder, const std::string& file) {
  std::error_code unreadable;
  return std::filesystem::equivalent(std::filesystem::path(file).parent_path(), folder, unreadable);
}

}  // namespace dtrain::data
