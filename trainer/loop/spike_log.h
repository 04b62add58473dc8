// What a run does about the spikes of its training loss (--on_spike), and spikes.jsonl in the run directory: the losses
// that stood out (--spike_factor), a JSON object a line, each with the samples of its step. The file also tells a run
// that resumes how often it had gone back to the checkpoint: a checkpoint is not written again when the run goes back
// to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/loop/spike_watch.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_state.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/split_batches.h"

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

// On rank 0: adds the spike with the samples of its step to spikes.jsonl, warns of it, and passes it to the reporter.
// `progress` is that of the run when it met the spike. `action`: what follows; `rewind`, if that is a rewind.
// Throws StorageError.
void ReportSpike(const TrainerParts& parts, const Progress& progress, const Spike& spike, const std::string& action,
                 const std::optional<Rewind>& rewind = std::nullopt);

// Returns the rewind after a spike: to the checkpoint of `checkpoint` steps, leaving out all batches up to that of the
// spike.
Rewind RewindAfter(const Spike& spike, int64_t checkpoint);

// Adds a rewind to those so far; those to later checkpoints are forgotten. Returns false, and adds nothing, if the run
// has gone back to that checkpoint often enough (kMostRewinds).
bool AddRewind(const Rewind& rewind, std::vector<Rewind>& rewinds);

// Returns the samples of the global batch of a step, as they lie in the data. `batch` counts the batches from the start
// of the training, from 0, those that rewinds have left out among them. A sample that could not be read is listed, not
// the one that took its place.
std::vector<int64_t> SamplesOf(const tasks::SplitBatches& batches, int64_t batch);

// Returns the number of samples that the run has trained on, without those of batches that were left out.
int64_t SamplesSeen(const tasks::SplitBatches& batches, const Progress& progress);

}  // namespace dtrain::loop
