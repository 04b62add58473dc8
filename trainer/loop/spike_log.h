// spikes.jsonl in the run directory: the training losses that stood out (--spike_factor), a JSON object a line, each
// with the samples of its step. The file also tells a run that resumes how often it had gone back to the checkpoint:
// a checkpoint is not written again when the run goes back to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/loop/spike_watch.h"
#include "trainer/loop/training_state.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// For rank 0 only. All methods throw StorageError.
class SpikeLog {
 public:
  // The lines that the file may have; those of rewinds are written in any case.
  static constexpr int64_t kMostLines = 200;
  // The samples that a line names.
  static constexpr int64_t kMostSamples = 256;

  explicit SpikeLog(std::filesystem::path path) : path_(std::move(path)) {}

  // Returns the rewinds to the checkpoint of `step` that the file has, in order.
  std::vector<Rewind> RewindsTo(int64_t step) const;

  // For a run that resumes from the checkpoint of `step`: removes the lines of later steps, other than those of rewinds
  // to that checkpoint or an earlier one.
  void Resume(int64_t step);

  // Appends a line, durably. Returns false if there are too many. `samples` are those of the step; `rewind` is what
  // follows the spike, if it is a rewind.
  struct Entry {
    Spike spike;
    std::string action;
    std::optional<Rewind> rewind = std::nullopt;
    std::vector<int64_t> samples = {};
  };
  bool Add(const Entry& entry, const data::RecordSource& source);

 private:
  std::vector<std::string> Lines() const;

  std::filesystem::path path_;
};

}  // namespace dtrain::loop
