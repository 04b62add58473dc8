// What a run reports while it goes on: its numbers as plain values, so that logging can be tested without training, the
// lines of JSON that tell them to programs, and the interface of everything that receives them. The training loop
// reports each number once, to all sinks. Other programs rely on the keys (metrics.jsonl).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/outputs.h"
#include "data/record_source.h"
#include "trainer/report/confusions.h"

namespace dtrain::report {

// The phases of a run. Its time is divided into them, and ranks tell each other in which they are.
enum class Phase {
  kStarting,  // from the start of the process to the first step
  kData,      // waiting for a batch that is not ready
  kForward,   //
  kBackward,  // including the part of the gradients' reduction that it hides
  kExchange,  // exposed communication: waiting for the rest of the reduction, and the exchange of sums and statistics
  kUpdate,    // the update of the weights
  kEvaluation,
  kSaving,   // copying the state to be saved, and waiting for the writer
  kLeaving,  // the end of the run, for which no time is counted
  kOther,    // logging and everything else, of which ranks do not tell each other
};
constexpr size_t kNumPhases = 10;

// The key of a phase's seconds in metrics.jsonl and times.jsonl.
const char* SecondsKey(Phase phase);

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double SecondsSince1970();

struct TimeParts {
  std::array<double, kNumPhases> seconds{};

  double& operator[](Phase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds[static_cast<size_t>(phase)]; }

  double total() const {
    double sum = 0;
    for (const double one : seconds) sum += one;
    return sum;
  }
};

inline TimeParts operator-(TimeParts after, const TimeParts& before) {
  for (size_t i = 0; i < kNumPhases; ++i) after.seconds[i] -= before.seconds[i];
  return after;
}

inline TimeParts operator+(TimeParts one, const TimeParts& other) {
  for (size_t i = 0; i < kNumPhases; ++i) one.seconds[i] += other.seconds[i];
  return one;
}

inline TimeParts operator/(TimeParts whole, double divisor) {
  for (double& one : whole.seconds) one /= divisor;
  return whole;
}

// A number that tells how good a model is. Each task lists its metrics; everything else (console, JSON, checkpoints,
// the choice of the best weights) uses that list and knows no metric by name.
struct Metric {
  std::string name;  // the key: "top1" is val_top1 in result.json
  double value = 0;
  int decimals = 4;  // in text; JSON has all digits
  bool higher_is_better = false;
  // Its column in --log_format=table: the heading with the spaces before it, and the number of decimals. If the heading
  // is empty, the column uses `name` and `decimals`.
  std::string table_heading = {};
  int table_decimals = 0;

  bool operator==(const Metric&) const = default;
};

// Metrics in the order in which they are shown.
using Metrics = std::vector<Metric>;

// The beginning of the names of metrics of the moving average of the weights.
inline constexpr std::string_view kOfAverage = "ema_";

// Whether `candidate` is a better value. NaN is never better, any number is better than NaN, and better than the value
// of another metric, which decided before. Of the average and of the weights themselves, a metric is the same.
bool IsBetter(const Metric& candidate, const Metric& known);

enum class SpeedUnit { kImages, kTokens };

// Returns "images_per_second" or "tokens_per_second".
const char* SpeedKey(SpeedUnit unit);

// Further counts of a run on text, over all ranks: since the last point, or of a whole evaluation.
struct TextCounts {
  int64_t batches = 0;  // global batches; in training, steps
  int64_t samples = 0;
  int64_t tokens = 0;          // without padding
  int64_t padding = 0;         // padding tokens that the model computed on
  int64_t empty_samples = 0;   // without a token, so that there is nothing to learn
  int64_t guessed = 0;         // in evaluations: tokens, or sentences, that the metrics measure
  bool has_perplexity = true;  // the loss is that of a token
  double seconds = 0;
};

struct TrainPoint {
  int64_t step = 0;          // steps done: 1 after the first
  double epoch = 0;          // samples seen / samples of an epoch
  int64_t epoch_number = 1;  // the epoch, counted from 1, in which the step began
  double loss = 0;  // mean of the criterion over the global batches since the last point, non-finite ones left out
  std::optional<double> final_loss = std::nullopt;  // loss + ½·wd·‖w‖²; only for the table
  double lr = 0;
  Metrics metrics = {};  // of the (augmented) training samples since the last point
  double speed = 0;      // images or tokens per second since the last point, all ranks together
  SpeedUnit speed_unit = SpeedUnit::kImages;
  double data_seconds = 0;  // mean time that a step since the last point waited for data
  double step_seconds = 0;  // mean time of a step since the last point
  // The mean time that a step spent in each part, kOther being the rest of step_seconds. Empty on a GPU, where the host
  // only starts the work; --profile_steps measures it there.
  std::optional<TimeParts> step_parts = std::nullopt;
  std::optional<double> grad_norm = std::nullopt;   // of the last step, before clipping
  std::optional<double> loss_scale = std::nullopt;  // empty without loss scaling
  int64_t bad_records = 0;  // different training records replaced since this start of the program, all ranks together
  double time = 0;          // seconds since 1970

  // Only for warnings and Prometheus.
  int64_t empty_steps = 0;                                  // since the last point, without anything to learn
  int64_t skipped_steps = 0;                                // since the last point, because gradients were not finite
  std::optional<double> checkpoint_age = std::nullopt;      // seconds since the last one was on the disk, or the start
  std::optional<double> checkpoint_seconds = std::nullopt;  // the time that writing the last one took

  // Only for text; all but the counts are only for fairseq's line.
  std::optional<TextCounts> text = std::nullopt;
  std::optional<double> mean_grad_norm = std::nullopt;  // over the steps since the last point that were not skipped
  std::optional<double> clipped = std::nullopt;  // the percentage of them that was clipped; empty without clipping
  std::optional<double> free_gigabytes = std::nullopt;  // least free GiB of rank 0's GPU since the last point
  double run_seconds = 0;                               // since training began in this start of the program
};

struct ValPoint {
  int64_t step = 0;
  double epoch = 0;
  int64_t epoch_number = 1;      // the epoch, counted from 1, in which the step began
  Metrics metrics = {};          // the task's; never empty after an evaluation
  size_t decides = 0;            // which of them tells whether the weights are the best
  int64_t bad_records = 0;       // left out of this evaluation, all ranks together
  int64_t samples = 0;           // evaluated by all ranks
  int64_t samples_of_split = 0;  // all that there are; more than samples and bad_records if the evaluation was limited
  int64_t units = 0;             // images, or tokens without padding, from which the speed is computed

  // Empty for the validation set that decides; the name of any further one, whose `step` and `epoch` are the same.
  std::string split = {};
  bool trained_on = false;             // the samples are those of the training: its numbers are called train_…
  std::vector<ValPoint> further = {};  // of the same weights on the further sets, in the order of --val_split

  // What was found of each class, where confusions do not tell: a word's class is part of an entity's.
  std::vector<ClassScores> scores = {};
  // The confusion matrix, classes² counts with a row for each true class and a column for each predicted one. Empty if
  // it was not asked for.
  std::vector<int64_t> confusions = {};

  std::optional<TextCounts> text = std::nullopt;  // only for text, for fairseq's line
  // The best value of the metric that decides in all evaluations up to this one; empty at the first.
  std::optional<double> best = std::nullopt;

  const Metric& decisive() const { return metrics.at(decides); }
  // Lets the metric of this name decide, if the point has it: of the average if that has decided, else of the weights.
  void DecideBy(const std::string& name);
  bool is_limited() const { return samples + bad_records < samples_of_split; }
};

struct EpochPoint {
  int64_t epoch = 0;  // epochs finished: 1 after the first
  double epoch_seconds = 0;
};

// A checkpoint that is on the disk.
struct CheckpointPoint {
  int64_t step = 0;
  std::string path;  // of its folder
};

// A sample, and where it lies in the data.
struct PlacedSample {
  int64_t index = 0;
  data::RecordPlace place;
};

// A training loss that stood out (--spike_factor).
struct SpikePoint {
  int64_t step = 0;
  double loss = 0, mean = 0, deviation = 0;  // the last two of the losses before
  std::string action;                        // of --on_spike
  int64_t samples_of_step = 0;               // of the global batch
  std::vector<PlacedSample> samples = {};    // the first of them
};

// The time that one start of the program has spent, from the start of the process to the end of a step.
struct RunTimes {
  int64_t step = 0;
  TimeParts parts = {};
};

// The time that all starts of the program have spent on a run.
struct TimeSplit {
  int64_t attempts = 0;     // starts of the program
  TimeParts kept = {};      // the time that was not lost
  double lost_seconds = 0;  // work that no checkpoint kept and that a later attempt did again
};

// An image of the first training samples, as the model sees them.
struct Picture {
  int width = 0, height = 0;  // pixels
  std::string png;
};

// The result of a finished run. result.json has val_*, with further validation sets also val_<split>_* (or train_loss
// without a validation), the fields below, and the names of those of which less is better.
struct RunResult {
  std::optional<ValPoint> validation = std::nullopt;  // the last one; empty without validation
  std::optional<ValPoint> best = std::nullopt;  // the best one by the metric that decides; empty without validation
  double train_loss = 0;                        // of the last TrainPoint
  std::string stopped_early = {};               // the reason; empty if all steps are done
  int64_t step = 0;
  double epoch = 0;
  double seconds = 0;  // of this start of the program
  int64_t samples_seen = 0;
  int64_t bad_records = 0;  // that an evaluation left out
  int world_size = 1;
  double speed = 0;  // mean over this start of the program, images or tokens per second of all ranks together
  SpeedUnit speed_unit = SpeedUnit::kImages;
  std::optional<TimeSplit> time_split = std::nullopt;
};

// How result.json is known again.
inline const data::Mark kResultMark = {"{", "\"samples_seen\":"};

// Return one line of metrics.jsonl without the newline. Numbers have full precision; NaN and infinities become null.
// bad_records and empty_samples are written only if they are not 0, samples and samples_of_split only of a limited
// evaluation, split only of a further validation set. Training on text adds tokens and padding_tokens since the last
// line.
std::string JsonLine(const TrainPoint& point);
std::string JsonLine(const ValPoint& point);
std::string JsonLine(const EpochPoint& point);
// The same for spikes.jsonl and --on_event; metrics.jsonl has no such lines.
std::string JsonLine(const SpikePoint& point);
std::string JsonLine(const CheckpointPoint& point);

// The key of the names of the numbers in result.json of which less is better: "val_loss", "val_test_loss", "best_mae".
inline constexpr char kSmallerIsBetter[] = "smaller_is_better";
std::vector<std::string> SmallerIsBetter(const RunResult& result);

// Return the content of result.json, and the same in one line with "kind":"result".
std::string ResultJson(const RunResult& result);
std::string JsonLine(const RunResult& result);

// Returns the last line of stdout: val_<metric>=… for each metric, "val_top1=75.93 val_top5=92.91 val_loss=0.9912", and
// "val_samples=320 val_samples_of_split=10000" if the evaluation was limited; then the same of further validation sets
// as val_<split>_<metric>=…; or train_loss=… without a validation.
std::string FinalLine(const RunResult& result);

// Receives a run's numbers: the console, metrics.jsonl, TensorBoard, the metrics endpoint. Methods are called on the
// main thread of rank 0. A sink overrides those that it needs. A sink whose failures must not go unnoticed throws
// StorageError, which ends the run; a sink that could be slow works in a thread of its own.
class LogSink {
 public:
  virtual ~LogSink() = default;

  // Called once, before all others. The run continues after `step` steps and `epochs_done` (fractional) epochs, both 0
  // for a new run. Everything reported earlier about later steps is void.
  virtual void Resume(int64_t /*step*/, double /*epochs_done*/) {}
  virtual void Train(const TrainPoint& /*point*/) {}
  // Called for each validation set (ValPoint::split), the one that decides first.
  virtual void Validation(const ValPoint& /*point*/) {}
  virtual void Epoch(const EpochPoint& /*point*/) {}
  // The time that this start of the program has spent so far. Called often, and after each evaluation and save.
  virtual void Times(const RunTimes& /*times*/) {}
  virtual void Spike(const SpikePoint& /*point*/) {}
  // A checkpoint is on the disk; called some steps after that.
  virtual void Checkpoint(const CheckpointPoint& /*point*/) {}
  // The images of the first batch. Called at most once, and only if the training starts at step 0.
  virtual void FirstBatch(const Picture& /*picture*/) {}
  virtual void Finish(const RunResult& /*result*/) {}
};

// Return the lines that fairseq-train prints with --log-format=json, for scripts that parse them: the same keys in the
// same order with the same rounding. All values but epoch and update are texts. The loss is in bits per masked token,
// and ppl is 2^loss. For points of text, which have TextCounts. As in fairseq, clip is written only with clipping,
// loss_scale with fp16, gb_free on a GPU, and valid_best_loss from the second evaluation on.
std::string FairseqLine(const TrainPoint& point);
std::string FairseqLine(const ValPoint& point);

}  // namespace dtrain::report
