#include "trainer/loop/spike_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/loop/training_health.h"

namespace dtrain::loop {
namespace {

constexpr uint64_t kMostSpikeBytes = uint64_t{1} << 30;

// What a line says about its place in the run.
struct Told {
  int64_t step = 0;
  std::optional<Rewind> rewind;
};

// Throws StorageError: a run that overlooked a rewind would train on what it had left out.
Told Parse(const std::string& line, const std::filesystem::path& path) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto count = [&](const char* key) -> std::optional<int64_t> {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || found == json.end() || !found->is_number_unsigned()) return std::nullopt;
    constexpr uint64_t kMost = uint64_t{1} << 53;  // more than any run has steps
    return found->get<uint64_t>() <= kMost ? std::optional(found->get<int64_t>()) : std::nullopt;
  };
  const auto step = count("step"), checkpoint = count("checkpoint"), left_out = count("left_out_batches");
  if (!step || checkpoint.has_value() != left_out.has_value()) {
    throw StorageError(path.string() + " is damaged: a line has no step, or a part of a rewind only",
                       "remove the file; then the run trains again on what rewinds from its last checkpoint left out");
  }
  Told told{.step = *step};
  if (checkpoint) told.rewind = Rewind{.step = *checkpoint, .batches = *left_out};
  return told;
}

}  // namespace

std::vector<std::string> SpikeLog::Lines() const {
  std::vector<std::string> lines;
  if (!std::filesystem::exists(path_)) return lines;
  std::istringstream stream(checkpoint::ReadTextFile(path_, kMostSpikeBytes));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Rewind> SpikeLog::RewindsTo(int64_t step) const {
  std::vector<Rewind> rewinds;
  for (const std::string& line : Lines()) {
    const Told told = Parse(line, path_);
    if (told.rewind && told.rewind->step == step) rewinds.push_back(*told.rewind);
  }
  return rewinds;
}

void SpikeLog::Resume(int64_t step) {
  std::string kept;
  size_t count = 0;
  const std::vector<std::string> lines = Lines();
  for (const std::string& line : lines) {
    const Told told = Parse(line, path_);
    if (told.rewind ? told.rewind->step > step : told.step > step) continue;
    kept += line + "\n";
    ++count;
  }
  if (count < lines.size()) checkpoint::WriteAtomically(path_, kept);
}

bool SpikeLog::Add(const Entry& entry, const data::RecordSource& source) {
  const std::vector<std::string> lines = Lines();
  if (!entry.rewind && static_cast<int64_t>(lines.size()) >= kMostLines) return false;
  nlohmann::ordered_json json = {{"step", entry.spike.step},
                                 {"loss", entry.spike.loss},
                                 {"mean", entry.spike.mean},
                                 {"deviation", entry.spike.deviation},
                                 {"action", entry.action}};
  if (entry.rewind) json.update({{"checkpoint", entry.rewind->step}, {"left_out_batches", entry.rewind->batches}});
  json["samples_of_step"] = entry.samples.size();
  json["samples"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < std::min(entry.samples.size(), static_cast<size_t>(kMostSamples)); ++i) {
    const data::RecordPlace place = source.Place(entry.samples[i]);
    nlohmann::ordered_json sample = {{"index", entry.samples[i]}, {"file", place.file}};
    if (place.offset) sample["offset"] = *place.offset;
    json["samples"].push_back(std::move(sample));
  }
  std::string content;
  for (const std::string& line : lines) content += line + "\n";
  content += json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  checkpoint::WriteAtomically(path_, content);
  return true;
}

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
