// What a run does about a spike of its training loss (--on_spike): it reports the spike, and may leave its batches out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/loop/spike_watch.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_state.h"
#include "trainer/tasks/split_batches.h"

namespace dtrain::loop {

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
