// The numbers of a run as they are reported, and their JSON lines: plain values, so that what is logged can be tested
// without training anything. The keys are a contract (metrics.jsonl).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/metric.h"
#include "trainer/report/time_parts.h"

namespace dtrain::report {

enum class SpeedUnit { kImages, kTokens };

// "images_per_second" or "tokens_per_second".
const char* SpeedKey(SpeedUnit unit);

// What a run on text counts beside: over all ranks, since the last point, or over all of an evaluation.
struct TextCounts {
  int64_t batches = 0;  // global ones: steps of training
  int64_t samples = 0;
  int64_t tokens = 0;   // that are no padding
  int64_t padding = 0;  // that were computed on along with them
  double seconds = 0;
};

struct TrainPoint {
  int64_t step = 0;  // steps done: 1 after the first
  double epoch = 0;  // samples seen / samples of an epoch
  double loss = 0;   // mean of the criterion over the global batches since the last point
  std::optional<double> final_loss = std::nullopt;  // loss + ½·wd·‖w‖²: only in the table
  double lr = 0;
  Metrics metrics = {};  // of the training samples since the last point, as they were augmented
  double speed = 0;      // of the whole run, all ranks, per second
  SpeedUnit speed_unit = SpeedUnit::kImages;
  double data_seconds = 0;  // of a step: waiting for data
  double step_seconds = 0;  // of a step: all of it
  // Of a step: where the rest of step_seconds goes, up to the last part of it. None on a GPU, where the host only says
  // what is to be done: --profile_steps measures there.
  std::optional<TimeParts> step_parts = std::nullopt;
  std::optional<double> grad_norm = std::nullopt;
  std::optional<double> loss_scale = std::nullopt;
  int64_t bad_records = 0;  // different ones that this run of the program has met and replaced, all ranks
  // With --decode=gpu: images of rank 0 since the last point that the GPU did not decode.
  std::optional<int64_t> decoded_on_cpu = std::nullopt;
  double time = 0;  // seconds since 1970

  // For the metrics of Prometheus alone.
  int64_t skipped_steps = 0;                                // since the last point
  std::optional<double> checkpoint_age = std::nullopt;      // seconds since one was last on the disk, or the start
  std::optional<double> checkpoint_seconds = std::nullopt;  // how long the last one took to be written

  // Of text only; all but the counts are for fairseq's line alone.
  std::optional<TextCounts> text = std::nullopt;
  std::optional<double> mean_grad_norm = std::nullopt;  // of the steps since the last point that were not skipped
  std::optional<double> clipped = std::nullopt;         // percent of them; there with --clip_norm
  std::optional<double> free_gigabytes = std::nullopt;  // the least since the last point, of rank 0's GPU
  double run_seconds = 0;                               // since the run of the program began
};

struct ValPoint {
  int64_t step = 0;
  double epoch = 0;
  Metrics metrics = {};     // of the task; never empty where there was an evaluation
  int64_t bad_records = 0;  // left out of this evaluation, all ranks
  int64_t samples = 0;      // evaluated, all ranks
  int64_t units = 0;        // images, or tokens that are no padding: what speeds count

  // Of classes, where they were asked for: how often a sample of the class of the row was taken for that of the column.
  std::vector<int64_t> confusions = {};

  std::optional<TextCounts> text = std::nullopt;  // of text only, for fairseq's line
  // Of all evaluations up to this one, by the first metric; none at the first.
  std::optional<double> best = std::nullopt;
};

struct EpochPoint {
  int64_t epoch = 0;  // epochs finished: 1 after the first
  double epoch_seconds = 0;
};

// What one start of the program has spent, from the start of the process to the end of a step.
struct RunTimes {
  int64_t step = 0;
  TimeParts parts = {};
};

// What all starts of the program have spent on a run, and what of it was of use.
struct TimeSplit {
  int64_t attempts = 0;
  TimeParts kept = {};      // of what was not lost
  double lost_seconds = 0;  // work of which a later attempt found no checkpoint, and has done again
};

// The first samples of a training, as it sees them.
struct Picture {
  int width = 0, height = 0;  // pixels
  std::string png;
};

// result.json: a finished run. Its keys are val_* (or train_loss without a validation) and the fields below.
struct RunResult {
  std::optional<ValPoint> validation = std::nullopt;  // the last one
  std::optional<ValPoint> best = std::nullopt;        // by its first metric; there where `validation` is
  double train_loss = 0;                              // of the last train point
  std::string stopped_early = {};                     // why; empty: all steps are done
  int64_t step = 0;
  double epoch = 0;
  double seconds = 0;  // of this run of the program
  int64_t samples_seen = 0;
  int world_size = 1;
  double speed = 0;  // mean of this run of the program, per second
  SpeedUnit speed_unit = SpeedUnit::kImages;
  std::optional<TimeSplit> time_split = std::nullopt;
};

// One line of metrics.jsonl, without the newline. Numbers keep their full precision; NaN and infinities become null.
// bad_records is there where it is not 0; text has tokens and padding_tokens, counted since the last line.
std::string JsonLine(const TrainPoint& point);
std::string JsonLine(const ValPoint& point);
std::string JsonLine(const EpochPoint& point);

// The content of result.json, and the same in one line with "kind":"result".
std::string ResultJson(const RunResult& result);
std::string JsonLine(const RunResult& result);

// The last line of stdout: val_<metric>=… for each metric, "val_top1=75.93 val_top5=92.91 val_loss=0.9912"; without a
// validation "train_loss=".
std::string FinalLine(const RunResult& result);

}  // namespace dtrain::report
