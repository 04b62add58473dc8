// The list of bad records, and how many of them a run puts up with. A single broken file must not end a run of days; a
// broken disk must not go unnoticed.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>

namespace dtrain::data {

struct BadRecord {
  std::string split;
  int64_t index = 0;     // in the RecordSource
  std::string location;  // file, with the offset where several records share one
  std::string reason;
};

struct QuarantineOptions {
  std::string split = "train";    // for messages and the file
  double max_bad_records = 1e-4;  // fraction; the budget is ⌈max_bad_records · dataset_size⌉
  bool strict = false;            // budget 0: the first bad record is an error
  std::string path = {};          // JSON lines are appended here, opened when first needed; empty: no file
  std::function<void(const BadRecord&)> on_bad_record =
      {};  // for logging; may be called from any thread, one at a time
};

// One per split and process. Safe to call from many threads.
class Quarantine {
 public:
  Quarantine(int64_t dataset_size, QuarantineOptions options);

  // Notes a bad record; each index counts once. Throws DataError once the budget is exceeded (naming the file, the
  // counts and --max_bad_records), or when the file cannot be written.
  void Add(int64_t index, const std::string& location, const std::string& reason);

  int64_t count() const;
  int64_t budget() const { return budget_; }

 private:
  void Append(const BadRecord& record);

  const QuarantineOptions options_;
  const int64_t dataset_size_;
  const int64_t budget_;
  mutable std::mutex mutex_;
  std::unordered_set<int64_t> seen_;
};

}  // namespace dtrain::data
