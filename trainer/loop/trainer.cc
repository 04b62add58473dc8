// Read Run() first. Nothing in a step waits for the device: losses stay there until a line is logged.
#include "trainer/loop/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "trainer/checkpoint/host_copies.h"
#include "trainer/device/device.h"
#include "trainer/errors.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/make_parameter_update.h"
#include "trainer/loop/run_quarantine.h"
#include "trainer/loop/stop_signal.h"
#include "trainer/loop/training_health.h"
#include "trainer/optim/precision.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_seed.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

using Clock = std::chrono::steady_clock;
using distributed::Phase;

// What travels in the step's exchange.
enum StepSum { kLossSum, kWeight, kUnits, kPadding, kSamples, kNumStepSums };

// What is added up between two logged lines: loss and weight of the steps whose loss is finite, norms (and which were
// clipped) of the steps that were not skipped.
enum IntervalSum {
  kIntervalLoss,
  kIntervalWeight,
  kIntervalUnits,
  kIntervalPadding,
  kIntervalSamples,
  kIntervalSkipped,
  kIntervalNorm,
  kIntervalClipped,
  kNumIntervalSums
};

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double UnixTime() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::unique_ptr<data::Quarantine> QuarantineOf(const std::optional<DataSplit>& split, const char* fate,
                                               const TrainerParts& parts) {
  if (!split) return nullptr;
  return MakeRunQuarantine(*split, parts.config.data, parts.files.quarantine(parts.communicator.rank()), fate,
                           parts.control);
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer)
    : parts_(parts),
      writer_(writer),
      nominal_weight_(parts.task.NominalWeight(parts.plan.batch.global_batch_size)),
      train_quarantine_(QuarantineOf(parts.data.train, "replaced", parts)),
      val_quarantine_(QuarantineOf(parts.data.val, "left out", parts)),
      update_(MakeParameterUpdate(parts.config, parts.task.module(), parts.device)),
      profiler_(config::ParseStepRange(parts.config.report.profile_steps),
                parts.files.root / "profile" / ("rank-" + std::to_string(parts.communicator.rank()) + ".json"),
                parts.device),
      interval_sums_(at::zeros({kNumIntervalSums}, at::TensorOptions(at::kDouble).device(parts.device))),
      units_(at::zeros({}, at::TensorOptions(at::kDouble).device(parts.device))) {}

Trainer::~Trainer() = default;

void Trainer::Restore(const Progress& progress, const checkpoint::Snapshot* restored) {
  progress_ = progress;
  torch::nn::Module& module = parts_.task.module();
  if (restored != nullptr) {
    CopyInto(StateOf(module), restored->model);
    CopyInto(update_.State(), restored->optimizer);
  }
  if (parts_.config.optimizer.ema_decay > 0) RestoreAverage(restored);
  std::vector<at::Tensor> replicated;
  for (const auto& [name, tensor] : StateOf(module)) replicated.push_back(tensor.detach());
  for (const auto& [name, tensor] : update_.State()) replicated.push_back(tensor);
  for (size_t i = 0; average_ && i < average_->tensors().size(); ++i) {
    replicated.push_back(average_->tensors()[i].second);
  }
  parts_.communicator.BroadcastFromFirst(replicated);

  interval_sums_[kIntervalLoss] = progress_.interval_loss_sum;
  interval_sums_[kIntervalWeight] = progress_.interval_weight;
  data_parallel_ = std::make_unique<distributed::DataParallel>(
      ParametersOf(module), parts_.communicator, DataParallelOptionsOf(parts_.config.ranks), progress_.bucket_layout);
  exchange_ = std::make_unique<distributed::StepExchange>(RunningStatistics(module), kNumStepSums, parts_.device,
                                                          parts_.communicator);
}

void Trainer::RestoreAverage(const checkpoint::Snapshot* restored) {
  const config::OptimizerConfig& config = parts_.config.optimizer;
  average_.emplace(StateOf(parts_.task.module()),
                   optim::WeightAverageOptions{.decay = config.ema_decay, .every = config.ema_every});
  if (restored == nullptr) return;
  if (restored->average.empty()) {
    report::LogWarning("the checkpoint has no average of the weights: it begins with the weights as they are now");
  } else {
    CopyInto(average_->tensors(), restored->average);
  }
}

report::RunResult Trainer::Run() {
  const Plan& plan = parts_.plan;
  const int64_t last_step = LastStep();
  const auto start = run_start_ = interval_start_ = epoch_start_ = last_save_ = Clock::now();
  if (EvaluationWasMissed()) EvaluateNow();
  if (progress_.step < last_step) StartLoader();
  while (progress_.step < last_step) {
    profiler_.Before(progress_.step + 1);
    TrainStep();
    profiler_.After(progress_.step);
    StopsAreOrderly();
    const bool stop = parts_.control.StopsHere(progress_.step);
    const bool last = progress_.step == last_step;
    if (plan.ShouldLog(progress_.step)) LogStep();
    if (plan.EndsEpoch(progress_.step)) FinishEpoch();
    if (stop && !last) SaveAndStop();
    if (last || plan.ShouldEvaluate(progress_.step)) EvaluateNow();
    if (last || SaveIsDueByTime() || plan.ShouldSave(progress_.step)) Save();
  }
  feed_.reset();
  loader_.reset();
  if (writer_ != nullptr) writer_->Wait();
  return Result(start);
}

int64_t Trainer::LastStep() const {
  const int64_t limit = parts_.config.run.limit_train_steps;
  return limit > 0 ? std::min(parts_.plan.total_steps, progress_.step + limit) : parts_.plan.total_steps;
}

// A stop can fall between the end of an epoch and its evaluation.
bool Trainer::EvaluationWasMissed() const {
  const bool evaluated = progress_.validation && progress_.validation->step == progress_.step;
  return progress_.step > 0 && parts_.plan.ShouldEvaluate(progress_.step) && !evaluated;
}

void Trainer::StartLoader() {
  const DataSplit& train = *parts_.data.train;
  loader_ = std::make_unique<data::Loader>(*train.source, *train.decoder, TrainBatches(),
                                           data::LoaderOptions{.decode_threads = parts_.config.data.workers,
                                                               .prefetch_batches = parts_.config.data.prefetch_batches,
                                                               .pin_memory = !parts_.device.is_cpu(),
                                                               .seed = parts_.config.batch.seed,
                                                               .first_batch = FirstBatch()},
                                           train_quarantine_.get());
  feed_.emplace(*loader_, data::MakeTransport(parts_.device, parts_.image_decoder),
                [this](data::Batch batch) { return parts_.task.Prepared(std::move(batch)); });
}

void Trainer::SaveAndStop() {
  Save();
  if (writer_ != nullptr) writer_->Wait();
  throw Preempted("stopped at step " + std::to_string(progress_.step) + " after a clean save",
                  "run it again with --run_dir=" + parts_.files.root.string() +
                      (parts_.config.run.resume == "none" ? " --resume=auto" : "") + " to go on");
}

void Trainer::TrainStep() {
  const double learning_rate = parts_.plan.LearningRate(progress_.step);
  if (parts_.step_graph == nullptr) {
    ComputeStep([this](int64_t micro_step) { return NextBatch(micro_step); }, learning_rate);
  } else {
    const data::Batch next = NextBatch(0);
    parts_.control.Enter(Phase::kForward);  // all that a replayed step enters: it must not seem to wait for data
    parts_.step_graph->Run(next, learning_rate, [this](const data::Batch& batch, const at::Tensor& rate) {
      ComputeStep([&batch](int64_t) { return batch; }, rate);
    });
  }
  ++progress_.step;
  ++interval_steps_;
  if (average_) average_->AfterStep(progress_.step);
  if (reported_step_ != nullptr) *reported_step_ = progress_.step;
  // On a GPU reading these waits for the device, which only a step that is logged does anyway.
  if (parts_.device.is_cpu() || parts_.plan.ShouldLog(progress_.step)) {
    RequireUpdates(update_.skipped_in_a_row(), parts_.config.optimizer.max_skipped_steps, progress_.step);
  }
}

data::Batch Trainer::NextBatch(int64_t micro_step) {
  const auto wait_start = Clock::now();
  parts_.control.Enter(Phase::kData);
  data::Batch batch = *feed_->Next();
  data_seconds_ += SecondsSince(wait_start);
  decoded_on_cpu_ += batch.size() - batch.decoded_on_device;
  SeedTask({.seed = parts_.config.batch.seed,
            .step = progress_.step,
            .micro_step = micro_step,
            .shard = parts_.communicator.rank()},
           parts_.device);
  return batch;
}

void Trainer::ComputeStep(const std::function<data::Batch(int64_t)>& next_batch, const optim::Rate& learning_rate) {
  at::Tensor sums = at::zeros({kNumStepSums}, at::TensorOptions(at::kFloat).device(parts_.device));
  data_parallel_->ZeroGradients();
  {
    const optim::CastCacheScope casts;
    const int64_t micro_steps = parts_.plan.batch.grad_accum_steps;
    for (int64_t micro_step = 0; micro_step < micro_steps; ++micro_step) {
      ComputeMicroStep(next_batch(micro_step), /*reduce=*/micro_step + 1 == micro_steps, sums);
    }
  }
  data_parallel_->AfterBackward();
  parts_.control.Enter(Phase::kExchange);
  exchange_->Run(sums);
  parts_.control.Enter(Phase::kUpdate);
  // Backward has divided by the nominal weight.
  std::optional<at::Tensor> remaining;
  if (parts_.task.weight_varies()) {
    remaining = at::where(sums[kWeight] > 0, nominal_weight_ / sums[kWeight], at::zeros_like(sums[kWeight]));
  }
  update_.Apply(data_parallel_->gradients(), learning_rate, remaining);

  const at::Tensor not_finite = sums[kLossSum].isfinite().logical_not();
  interval_sums_.slice(0, kIntervalLoss, kIntervalWeight + 1) +=
      sums.slice(0, kLossSum, kWeight + 1).masked_fill(not_finite, 0);
  interval_sums_.slice(0, kIntervalUnits, kIntervalSamples + 1) += sums.slice(0, kUnits, kSamples + 1);
  interval_sums_[kIntervalSkipped] += update_.skipped();
  if (parts_.task.speed_unit() == report::SpeedUnit::kTokens) AddNorm();
  units_ += sums[kUnits];
}

void Trainer::ComputeMicroStep(const data::Batch& batch, bool reduce, at::Tensor& sums) {
  parts_.control.Enter(Phase::kForward);
  const LossSums loss = parts_.task.Loss(batch);
  data_parallel_->BeforeBackward(reduce);
  // The reducer averages over ranks what is to be the mean over the global batch.
  const double scale = static_cast<double>(parts_.communicator.world_size()) / nominal_weight_;
  parts_.control.Enter(Phase::kBackward);
  update_.Scale(loss.loss_sum * scale).backward();

  at::NoGradGuard no_grad;
  sums[kLossSum] += loss.loss_sum;
  sums[kWeight] += loss.weight;
  sums[kUnits] += loss.units;
  if (loss.padding.defined()) sums[kPadding] += loss.padding;
  sums[kSamples] += static_cast<double>(batch.size());
}

void Trainer::AddNorm() {
  const at::Tensor done = update_.skipped().eq(0);
  const at::Tensor& norm = update_.gradient_norm_on_device();
  interval_sums_[kIntervalNorm] += norm.masked_fill(done.logical_not(), 0);
  interval_sums_[kIntervalClipped] += done.logical_and(norm > parts_.config.optimizer.clip_norm);
}

void Trainer::LogStep() {
  const at::Tensor sums = interval_sums_.cpu();
  const double weight = sums[kIntervalWeight].item<double>();
  const auto skipped = sums[kIntervalSkipped].item<int64_t>();
  const double seconds = SecondsSince(interval_start_);
  const auto steps = static_cast<double>(interval_steps_);
  report::TrainPoint point;
  point.step = progress_.step;
  point.epoch = parts_.plan.EpochAt(progress_.step);
  point.loss = weight > 0 ? sums[kIntervalLoss].item<double>() / weight : std::numeric_limits<double>::quiet_NaN();
  point.lr = parts_.plan.LearningRate(progress_.step - 1);
  point.speed = sums[kIntervalUnits].item<double>() / seconds;
  point.speed_unit = parts_.task.speed_unit();
  point.data_seconds = data_seconds_ / steps;
  point.step_seconds = seconds / steps;
  point.grad_norm = update_.gradient_norm();
  point.loss_scale = update_.loss_scale();
  point.bad_records = parts_.control.bad_records(parts_.data.train->name);
  if (parts_.image_decoder != nullptr) point.decoded_on_cpu = decoded_on_cpu_;
  point.time = UnixTime();
  point.skipped_steps = skipped;
  if (writer_ != nullptr) {
    point.checkpoint_age = writer_->seconds_since_last_success();
    point.checkpoint_seconds = writer_->last_save_seconds();
  }
  if (point.speed_unit == report::SpeedUnit::kTokens) AddTextTo(point, sums, seconds);
  if (parts_.reporter.wants_final_loss()) point.final_loss = point.loss + update_.L2Term();
  parts_.reporter.Train(point);
  WarnOfWaiting(point);

  progress_.last_train_loss = point.loss;
  interval_sums_.zero_();
  data_seconds_ = 0;
  interval_steps_ = 0;
  decoded_on_cpu_ = 0;
  interval_start_ = Clock::now();
  if (skipped > 0 && parts_.communicator.rank() == 0) WarnOfSkippedSteps(skipped, update_.loss_scale(), progress_.step);
  if (weight > 0) RequireFinite(point.loss, progress_.step);
}

void Trainer::AddTextTo(report::TrainPoint& point, const at::Tensor& sums, double seconds) {
  const auto count = [&sums](IntervalSum sum) { return std::llround(sums[sum].item<double>()); };
  point.text = report::TextCounts{.batches = interval_steps_,
                                  .samples = count(kIntervalSamples),
                                  .tokens = count(kIntervalUnits),
                                  .padding = count(kIntervalPadding),
                                  .seconds = seconds};
  const auto updates = static_cast<double>(interval_steps_ - count(kIntervalSkipped));
  if (updates > 0) {
    point.mean_grad_norm = sums[kIntervalNorm].item<double>() / updates;
    if (parts_.config.optimizer.clip_norm > 0) {
      point.clipped = 100 * sums[kIntervalClipped].item<double>() / updates;
    }
  }
  if (!parts_.device.is_cpu()) point.free_gigabytes = distributed::LeastFreeGigabytes(parts_.device);
  point.run_seconds = SecondsSince(run_start_);
}

// Once a run, and not for the first line, whose wait is the loader's start.
void Trainer::WarnOfWaiting(const report::TrainPoint& point) {
  constexpr double kTolerated = 0.1;
  if (warned_of_waiting_ || point.step == 1 || point.data_seconds < kTolerated * point.step_seconds) return;
  warned_of_waiting_ = true;
  loop::WarnOfWaiting(point.data_seconds / point.step_seconds, loader_->waits_for_storage(),
                      parts_.image_decoder != nullptr, parts_.config.data.workers);
}

void Trainer::FinishEpoch() {
  parts_.reporter.Epoch({parts_.plan.EpochsDone(progress_.step), SecondsSince(epoch_start_)});
  epoch_start_ = Clock::now();
}

void Trainer::EvaluateNow() {
  if (!parts_.data.val) return;
  const auto start = Clock::now();
  const auto evaluated = EvaluateWeights();
  if (!evaluated) SaveAndStop();  // evaluated anew when the run goes on: see EvaluationWasMissed
  report::ValPoint point = *evaluated;
  point.step = progress_.step;
  point.epoch = parts_.plan.EpochAt(progress_.step);
  if (progress_.best) {
    const report::Metric& best = progress_.best->metrics.front();
    const report::Metric& now = point.metrics.front();
    point.best = report::IsBetter(now, best) ? now.value : best.value;
  }
  progress_.validation = point;
  parts_.reporter.Validation(point);
  NoteBest(point);
  // Speeds are of training.
  interval_start_ += Clock::now() - start;
  evaluation_seconds_ += SecondsSince(start);
}

// The weights themselves, and behind their metrics those of their average.
std::optional<report::ValPoint> Trainer::EvaluateWeights() {
  const auto evaluate = [this] {
    return Evaluate(parts_.task, *parts_.data.val, parts_.config, parts_.communicator, parts_.control, progress_.step,
                    *val_quarantine_);
  };
  auto point = evaluate();
  if (!point || !average_) return point;
  std::optional<report::ValPoint> averaged;
  {
    const optim::WeightAverage::Scope scope(*average_);
    averaged = evaluate();
  }
  if (!averaged) return std::nullopt;
  for (report::Metric metric : averaged->metrics) {
    metric.name = "ema_" + metric.name;
    metric.table_heading.clear();
    point->metrics.push_back(std::move(metric));
  }
  return point;
}

void Trainer::NoteBest(const report::ValPoint& point) {
  if (progress_.best && !report::IsBetter(point.metrics.front(), progress_.best->metrics.front())) return;
  progress_.best = point;
  if (writer_ == nullptr) return;
  parts_.control.Enter(Phase::kSaving);  // the previous one may still be written
  auto copies = checkpoint::CopyToHost({StateOf(parts_.task.module())});
  writer_->SaveBest(progress_.step, std::move(copies.sets[0]), std::move(copies.wait));
}

bool Trainer::SaveIsDueByTime() const {
  const double every = parts_.config.run.save_every_seconds;
  return writer_ != nullptr && every > 0 && SecondsSince(last_save_) >= every;
}

void Trainer::Save() {
  parts_.control.Enter(Phase::kSaving);
  last_save_ = Clock::now();
  const at::Tensor sums = interval_sums_.cpu();
  progress_.interval_loss_sum = sums[kIntervalLoss].item<double>();
  progress_.interval_weight = sums[kIntervalWeight].item<double>();
  RequireFinite(progress_.interval_loss_sum, progress_.step);
  progress_.bucket_layout = data_parallel_->bucket_layout();
  if (writer_ == nullptr) return;
  nlohmann::json state = parts_.kept;
  state["progress"] = ToJson(progress_);
  auto copies = checkpoint::CopyToHost(
      {StateOf(parts_.task.module()), update_.State(), average_ ? average_->tensors() : checkpoint::NamedTensors()});
  writer_->Save({.step = progress_.step,
                 .model = std::move(copies.sets[0]),
                 .optimizer = std::move(copies.sets[1]),
                 .average = std::move(copies.sets[2]),
                 .state = std::move(state),
                 .wait = std::move(copies.wait)});
}

// Batches are numbered from the start of the training, not of this run of the program: draws are keyed by it.
int64_t Trainer::FirstBatch() const { return progress_.step * parts_.plan.batch.grad_accum_steps; }

data::BatchProvider Trainer::TrainBatches() {
  const int64_t accumulation = parts_.plan.batch.grad_accum_steps;
  return [this, accumulation](int64_t number) -> std::optional<std::vector<data::SampleRef>> {
    const int64_t step = number / accumulation;
    if (step >= parts_.plan.total_steps) return std::nullopt;
    return parts_.train_batches.Share(step, parts_.communicator.rank(), number % accumulation);
  };
}

report::RunResult Trainer::Result(Clock::time_point start) const {
  report::RunResult result;
  result.validation = progress_.validation;
  result.best = progress_.best;
  result.train_loss = progress_.last_train_loss;
  result.step = progress_.step;
  result.epoch = parts_.plan.EpochAt(progress_.step);
  result.seconds = SecondsSince(start);
  result.samples_seen = parts_.train_batches.SamplesTaken(progress_.step);
  result.world_size = parts_.communicator.world_size();
  result.speed_unit = parts_.task.speed_unit();
  result.speed = units_.item<double>() / (result.seconds - evaluation_seconds_);
  return result;
}

}  // namespace dtrain::loop
