// The list of bad records, and how many of them a run puts up with. A single broken file must not end a run of days; a
// broken disk must not go unnoticed.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>

#include "data/record_source.h"

namespace dtrain::data {

struct BadRecord {
  std::string split;
  int64_t index = 0;  // in the RecordSource
  RecordPlace place;
  std::string reason;
};

struct QuarantineOptions {
  std::string split = "train";    // for messages and the file
  double max_bad_records = 1e-4;  // fraction; the budget is ⌈max_bad_records · dataset_size⌉
  bool strict = false;            // budget 0: the first bad record is an error
  // JSON lines are appended here, opened when first needed; empty: no file. A line that is there already, of an earlier
  // attempt, is not written again.
  std::string path = {};
  std::function<void(const BadRecord&)> on_bad_record =
      {};  // for logging; may be called from any thread, one at a time
};

// How many bad records a set of this size may have.
int64_t BadRecordBudget(int64_t dataset_size, const QuarantineOptions& options);

// One per split and process. Safe to call from many threads.
class Quarantine {
 public:
  Quarantine(int64_t dataset_size, QuarantineOptions options);

  // Notes a bad record; each index counts once. Throws DataError once the budget is exceeded (naming the file, the
  // counts and --max_bad_records), or when the file cannot be written.
  void Add(int64_t index, const RecordPlace& place, const std::string& reason);

  int64_t count() const;
  int64_t budget() const { return budget_; }

 private:
  void Append(const BadRecord& record);
  void ReadEarlierLines();

  const QuarantineOptions options_;
  const int64_t dataset_size_;
  const int64_t budget_;
  mutable std::mutex mutex_;
  std::unordered_set<int64_t> seen_;
  std::unordered_set<std::string> earlier_lines_;  // of the file, read before the first is added
  bool earlier_lines_read_ = false;
};

// The line of quarantine.jsonl for a record, without the newline: split, index, file, offset (bytes; 0 where the record
// is the whole file) and reason.
std::string JsonLine(const BadRecord& record);

}  // namespace dtrain::data
