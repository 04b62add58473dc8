// Lists bad records and limits how many of them a run tolerates. A single broken file must not end a run of days, but a
// broken disk must not go unnoticed.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/outputs.h"
#include "data/record_source.h"

namespace dtrain::data {

struct BadRecord {
  std::string split;
  int64_t index = 0;  // position in the RecordSource
  RecordPlace place;
  std::string reason;
};

struct QuarantineOptions {
  std::string split = "train";                 // for messages and the file
  std::optional<double> max_bad_records = {};  // a fraction; the budget is ⌈max_bad_records · dataset_size⌉
  bool strict = false;                         // budget 0: the first bad record is an error
  // JSON lines are appended to this file, which is created, with its folder, for the first one; empty: no file. A line
  // that an earlier attempt of the run wrote is not written again.
  std::string path = {};
  // Called for each new bad record, from any thread, one call at a time; may be empty.
  std::function<void(const BadRecord&)> on_bad_record = {};
};

// Returns the number of bad records that a set of this size may have. Without a fraction it is one in 10,000, and in a
// small set a few, because people's photos always have some: 10, or a twentieth of fewer than 200, rounded up.
int64_t BadRecordBudget(int64_t dataset_size, const QuarantineOptions& options);

// There is one per split and process. Safe to call from many threads.
class Quarantine {
 public:
  Quarantine(int64_t dataset_size, QuarantineOptions options);

  // Adds a bad record; each index counts once. Throws DataError if the budget is exceeded (naming the file, the counts
  // and --max_bad_records), Error (exit code 5) if the file cannot be written.
  void Add(int64_t index, const RecordPlace& place, const std::string& reason);

  // Counts a bad record that an earlier call has listed.
  void Recall(int64_t index);

  int64_t count() const;                      // bad records so far
  int64_t budget() const { return budget_; }  // bad records allowed

 private:
  void Append(const BadRecord& record);
  void ReadEarlierLines();

  const QuarantineOptions options_;
  const int64_t dataset_size_;
  const int64_t budget_;
  mutable std::mutex mutex_;
  std::unordered_set<int64_t> seen_;
  std::unordered_set<std::string> earlier_lines_;  // lines of the file, read before the first line is appended
  bool earlier_lines_read_ = false;
  bool ends_in_part_ = false;  // the file's last line, when a process was killed while it wrote it
};

// How quarantine.jsonl is known again.
inline const Mark kQuarantineMark = {"{", "\"split\":"};

// Returns a record's line of quarantine.jsonl without the newline: split, index, file, offset (bytes; 0 if the record
// is the whole file) and reason.
std::string JsonLine(const BadRecord& record);

// Returns the records of a quarantine.jsonl, in the order of its lines; what is no such line is left out. Empty without
// the file.
std::vector<BadRecord> ReadBadRecords(const std::string& path);

// Whether a file is directly in a folder. Of relative paths the current folder is asked.
bool LiesIn(const std::string& folder, const std::string& file);

}  // namespace dtrain::data
