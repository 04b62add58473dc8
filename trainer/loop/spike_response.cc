#include "trainer/loop/spike_response.h"

#include <algorithm>

#include "trainer/config/elastic.h"
#include "trainer/loop/spike_log.h"
#include "trainer/loop/training_health.h"

namespace dtrain::loop {

void ReportSpike(const TrainerParts& parts, const Progress& progress, const Spike& spike, const std::string& action,
                 const std::optional<Rewind>& rewind) {
  if (parts.communicator.rank() != 0) return;
  const auto& path = parts.files.spikes_jsonl;
  const SpikeLog::Entry entry = {
      .spike = spike,
      .action = action,
      .rewind = rewind,
      .samples = SamplesOf(parts.train_batches, spike.step - 1 + progress.left_out_batches())};
  if (SpikeLog(path).Add(entry, *parts.data.train->source)) WarnOfSpike(spike, rewind, path.string());
  parts.reporter.Spike({.step = spike.step,
                        .loss = spike.loss,
                        .mean = spike.mean,
                        .deviation = spike.deviation,
                        .action = action,
                        .checkpoint = rewind ? std::optional(rewind->step) : std::nullopt});
}

Rewind RewindAfter(const Spike& spike, int64_t checkpoint) {
  return {.step = checkpoint, .batches = spike.step - checkpoint};
}

bool AddRewind(const Rewind& rewind, std::vector<Rewind>& rewinds) {
  const auto to_the_same = [&](const Rewind& earlier) { return earlier.step == rewind.step; };
  if (std::count_if(rewinds.begin(), rewinds.end(), to_the_same) >= kMostRewinds) return false;
  std::erase_if(rewinds, [&](const Rewind& earlier) { return earlier.step > rewind.step; });
  rewinds.push_back(rewind);
  return true;
}

std::vector<int64_t> SamplesOf(const tasks::SplitBatches& batches, int64_t batch) {
  const config::BatchSizes& sizes = batches.sizes();
  const int64_t parts = sizes.shards * sizes.grad_accum_steps;
  const auto part = batches.BatchesOf(config::DivisionOf(sizes.shards, /*rank=*/0, /*world_size=*/1), batch + 1);
  std::vector<int64_t> samples;
  for (int64_t number = batch * parts; number < (batch + 1) * parts; ++number) {
    const auto of_part = part(number);
    for (const data::SampleRef& sample : of_part->samples) samples.push_back(sample.index);
  }
  return samples;
}

int64_t SamplesSeen(const tasks::SplitBatches& batches, const Progress& progress) {
  int64_t samples = batches.SamplesTaken(progress.step + progress.left_out_batches());
  for (int64_t left_out = 0; const Rewind& rewind : progress.rewinds) {
    samples += batches.SamplesTaken(rewind.step + left_out);
    left_out += rewind.batches;
    samples -= batches.SamplesTaken(rewind.step + left_out);
  }
  return samples;
}

}  // namespace dtrain::loop
