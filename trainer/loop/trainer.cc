// Read Run() first. No step waits for the device: its sums stay there until a line is logged.
#include "trainer/loop/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "trainer/distributed/data_parallel.h"
#include "trainer/errors.h"
#include "trainer/loop/make_parameter_update.h"
#include "trainer/loop/spike_log.h"
#include "trainer/loop/stop_signal.h"
#include "trainer/loop/training_health.h"
#include "trainer/report/log.h"
#include "trainer/tasks/picture_grid.h"
#include "trainer/tasks/task_seed.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

using Clock = std::chrono::steady_clock;
using report::Phase;

constexpr double kSecondsBetweenTimes = 10;  // the first step that ends later reports them

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Trainer::Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer)
    : parts_(parts),
      shards_(config::DivisionOf(parts.plan.batch.shards, parts.communicator.rank(), parts.communicator.world_size())),
      nominal_weight_(parts.task.NominalWeight(parts.plan.batch.global_batch_size)),
      feed_(parts_),
      validation_(parts_),
      update_(MakeParameterUpdate(parts.config, parts.task.module(), parts.device)),
      profiler_(config::ParseStepRange(parts.config.report.profile_steps),
                parts.files.root / "profile" / ("rank-" + std::to_string(parts.communicator.rank()) + ".json"),
                parts.device, parts.step_graph != nullptr,
                [&reporter = parts.reporter](const std::string& line) { reporter.Note(line); }),
      phases_(parts.control, profiler_, parts.device.is_cpu(), parts.communicator.is_alone()),
      saving_(parts_, writer, phases_),
      learning_rate_(at::zeros({}, at::TensorOptions(at::kFloat).device(parts.device))),
      sums_(at::zeros({kNumStepSums}, learning_rate_.options())),
      interval_(parts_, phases_.times()) {}

Trainer::~Trainer() = default;

void Trainer::Restore(const Progress& progress, const checkpoint::Snapshot* restored) {
  progress_ = progress;
  shard_step_.reset();  // made anew below, also after a rewind
  data_parallel_.reset();
  parts_.task.module().zero_grad(/*set_to_none=*/true);
  skipped_steps_ = SkippedSteps(progress.step);
  torch::nn::Module& module = parts_.task.module();
  if (restored != nullptr) {
    weights::CopyInto(weights::StateOf(module), restored->model);
    weights::CopyInto(update_.State(), restored->optimizer);
  }
  average_ = MakeWeightAverage(parts_.config.optimizer, parts_.plan.schedule.warmup_steps, module, restored);
  std::vector<at::Tensor> replicated;
  for (const auto& [name, tensor] : weights::StateOf(module)) replicated.push_back(tensor.detach());
  for (const auto& [name, tensor] : update_.State()) replicated.push_back(tensor);
  for (size_t i = 0; average_ && i < average_->tensors().size(); ++i) {
    replicated.push_back(average_->tensors()[i].second);
  }
  parts_.communicator.BroadcastFromFirst(replicated);
  update_.WeightsChanged();

  interval_.Restore(progress_);
  if (parts_.config.optimizer.spike_factor > 0) {
    spikes_.emplace(parts_.config.optimizer, progress_.losses, parts_.device);
  }
  OnTheStreamOf(parts_.step_graph, [&] {
    data_parallel_ = std::make_unique<distributed::DataParallel>(
        weights::ParametersOf(module), parts_.communicator,
        DataParallelOptionsOf(parts_.config.ranks, parts_.plan.batch.grad_accum_steps), progress_.bucket_layout);
  });
  exchange_ = std::make_unique<distributed::StepExchange>(weights::RunningStatistics(module), kNumStepSums,
                                                          parts_.device, parts_.communicator);
  if (parts_.plan.batch.elastic) {
    shard_step_ = std::make_unique<distributed::ShardStep>(
        shards_.total, *data_parallel_, *exchange_, weights::BatchCounters(module), parts_.device, parts_.communicator);
  }
}

report::RunResult Trainer::Run() {
  const Plan& plan = parts_.plan;
  const int64_t last_step = LastStep();
  const auto start = epoch_start_ = Clock::now();
  saving_.Start();
  interval_.Start();
  phases_.Enter(Phase::kOther);
  ReportTimes();
  if (Rewinds() && progress_.step == 0) Save();  // there must be a checkpoint to go back to
  if (EvaluationWasMissed()) {
    EvaluateNow();
    if (StopsEarly()) Save();
  }
  const bool is_over = progress_.step >= last_step || StopsEarly();
  if (!is_over) feed_.Start(progress_.step, progress_.left_out_batches());
  for (bool last = is_over; !last;) {
    profiler_.Before(progress_.step + 1);
    TrainStep();
    phases_.Enter(Phase::kOther);
    profiler_.After(progress_.step);
    StopsAreOrderly();
    const bool stop = parts_.control.StopsHere(progress_.step);
    last = progress_.step == last_step;
    if (ReadsSpikes(stop, last) && GoesBackAfterSpikes()) {
      if (stop) SaveAndStop();
      last = false;
      continue;
    }
    parts_.reporter.Step(progress_.step, plan.EpochAt(progress_.step));
    if (plan.ShouldLog(progress_.step)) LogStep();
    if (SecondsSince(last_times_) > kSecondsBetweenTimes) ReportTimes();
    if (plan.EndsEpoch(progress_.step)) FinishEpoch();
    if (stop && !last) SaveAndStop();
    if (last || plan.ShouldEvaluate(progress_.step)) EvaluateNow();
    last = last || StopsEarly();
    // A rank that saves by time does not save a state that the run is about to leave.
    const bool by_time = saving_.IsDueByTime() && !(Rewinds() && spikes_->HasSpikes());
    if (last || by_time || plan.ShouldSave(progress_.step)) Save();
  }
  feed_.Stop();
  saving_.Finish();
  ReportTimes();
  return Result(start);
}

int64_t Trainer::LastStep() const {
  const int64_t limit = parts_.config.run.limit_train_steps;
  return limit > 0 ? std::min(parts_.plan.total_steps, progress_.step + limit) : parts_.plan.total_steps;
}

// A run may have been stopped between the end of an epoch and its evaluation.
bool Trainer::EvaluationWasMissed() const {
  const bool evaluated = progress_.validation && progress_.validation->step == progress_.step;
  return progress_.step > 0 && parts_.plan.ShouldEvaluate(progress_.step) && !evaluated;
}

void Trainer::SaveAndStop() {
  Save();
  saving_.Finish();
  ReportTimes();
  throw Preempted("stopped at step " + std::to_string(progress_.step) + " after a clean save",
                  "run it again with --run_dir=" + parts_.files.root.string() +
                      (parts_.config.run.resume == "none" ? " --resume=auto" : "") + " to go on");
}

// On a GPU, reading them waits for the device, so it is done only in steps that wait anyway.
bool Trainer::ReadsSpikes(bool stop, bool last) const {
  const Plan& plan = parts_.plan;
  const int64_t step = progress_.step;
  return spikes_ && (stop || last || parts_.device.is_cpu() || plan.ShouldLog(step) || plan.ShouldEvaluate(step) ||
                     plan.ShouldSave(step));
}

bool Trainer::GoesBackAfterSpikes() {
  for (const Spike& spike : spikes_->Take(progress_.step)) {
    if (Rewinds()) {
      GoBack(spike);
      return true;
    }
    ReportSpike(spike, parts_.config.optimizer.on_spike);
  }
  return false;
}

void Trainer::ReportSpike(const Spike& spike, const std::string& action, std::optional<Rewind> rewind) {
  if (parts_.communicator.rank() != 0) return;
  const auto samples = SamplesOf(parts_.train_batches, spike.step - 1 + progress_.left_out_batches());
  const auto& path = parts_.files.spikes_jsonl;
  const bool listed = SpikeLog(path).Add({.spike = spike, .action = action, .rewind = rewind, .samples = samples},
                                         *parts_.data.train->source);
  if (listed) WarnOfSpike(spike, rewind, path.string());
  parts_.reporter.Spike({.step = spike.step,
                         .loss = spike.loss,
                         .mean = spike.mean,
                         .deviation = spike.deviation,
                         .action = action,
                         .checkpoint = rewind ? std::optional(rewind->step) : std::nullopt});
}

// The batches from the checkpoint up to that of the spike are left out. The file of spikes remembers this until the
// next checkpoint does.
void Trainer::GoBack(const Spike& spike) {
  feed_.Stop();
  saving_.Finish();
  ReportTimes();
  phases_.Enter(Phase::kSaving);  // the other ranks wait for the first one, which reads
  LastSave last = parts_.read_last_save();
  const Rewind rewind{.step = last.progress.step, .batches = spike.step - last.progress.step};
  std::vector<Rewind> rewinds = progress_.rewinds;
  std::erase_if(rewinds, [&](const Rewind& earlier) { return earlier.step > rewind.step; });
  if (std::count_if(rewinds.begin(), rewinds.end(), [&](const Rewind& r) { return r.step == rewind.step; }) >=
      kMostRewinds) {
    ReportSpike(spike, "stop");
    ThrowTooManyRewinds(spike, rewind.step);
  }
  ReportSpike(spike, "rewind", rewind);
  rewinds.push_back(rewind);
  last.progress.rewinds = std::move(rewinds);

  if (parts_.step_graph != nullptr) parts_.step_graph->Forget();
  interval_.Restart();
  Restore(last.progress, last.snapshot ? &*last.snapshot : nullptr);
  parts_.reporter.GoBack(progress_.step, parts_.plan.EpochAt(progress_.step));
  if (reported_step_ != nullptr) *reported_step_ = progress_.step;
  ReportTimes();
  feed_.Start(progress_.step, progress_.left_out_batches());
}

void Trainer::TrainStep() {
  const double learning_rate = parts_.plan.LearningRate(progress_.step);
  if (parts_.step_graph != nullptr) {
    ReplayStep(learning_rate);
  } else {
    ComputeStep(learning_rate);
  }
  ++progress_.step;
  interval_.EndStep();
  if (average_) average_->AfterStep(progress_.step);
  if (reported_step_ != nullptr) *reported_step_ = progress_.step;
  // On a GPU this waits for the device, so it is checked only in steps that are logged and wait anyway.
  if (parts_.device.is_cpu() || parts_.plan.ShouldLog(progress_.step)) {
    RequireUpdates(update_.skipped_in_a_row(), parts_.config.optimizer.max_skipped_steps, progress_.step);
  }
}

// Each micro-step has a graph of its own, since each is seeded and may have a batch of another shape.
void Trainer::ReplayStep(double learning_rate) {
  const int64_t micro_steps = parts_.plan.batch.grad_accum_steps;
  for (int64_t micro_step = 0; micro_step < micro_steps; ++micro_step) {
    const data::Batch next = NextBatch();
    phases_.Enter(Phase::kForward);  // a replayed step enters no phase itself, and must not seem to wait for data
    const PlaceInStep place{.first = micro_step == 0, .last = micro_step + 1 == micro_steps};
    parts_.step_graph->Run(next, place, learning_rate, [=, this](const data::Batch& batch, const at::Tensor& rate) {
      ComputeMicroStep(batch, micro_step, rate);
    });
  }
  SayOnceThatStepsAreReplayed();
}

// On a GPU the rate is what it is for recorded steps, so that --cuda_graphs does not change the bits of a run.
optim::Rate Trainer::RateOnDevice(double learning_rate) {
  if (parts_.device.is_cpu()) return learning_rate;
  return learning_rate_.fill_(learning_rate);
}

void Trainer::SayOnceThatStepsAreReplayed() {
  if (said_replayed_ || !parts_.step_graph->replayed()) return;
  said_replayed_ = true;
  report::LogInfo("steps are replayed as a CUDA graph from step " + std::to_string(progress_.step + 1) + " on");
}

data::Batch Trainer::NextBatch() {
  phases_.Enter(Phase::kData);
  data::Batch batch = feed_.Next();
  phases_.Enter(Phase::kOther);
  if (parts_.reporter.wants_first_batch() && batch.number == 0) ShowFirstBatch(batch);
  tasks::SeedTask(parts_.config.batch.seed, batch.part, parts_.device);
  return batch;
}

void Trainer::ComputeStep(double learning_rate) {
  const optim::Rate rate = RateOnDevice(learning_rate);
  if (shard_step_) {
    ComputeShards();
    return Update(rate);
  }
  for (int64_t micro_step = 0; micro_step < parts_.plan.batch.grad_accum_steps; ++micro_step) {
    ComputeMicroStep(NextBatch(), micro_step, rate);
  }
}

// The loss is divided by the weight of the global batch in two parts, as Task says: before backward by the nominal
// weight, and in the update by what then remains. The reducer averages over ranks; the first factor makes that a sum.
double Trainer::FactorBeforeBackward() const {
  return (shard_step_ ? 1.0 : static_cast<double>(parts_.communicator.world_size())) / nominal_weight_;
}

std::optional<at::Tensor> Trainer::FactorOfUpdate() const {
  if (!parts_.task.weight_varies()) return std::nullopt;
  return at::where(sums_[kWeight] > 0, nominal_weight_ / sums_[kWeight], at::zeros_like(sums_[kWeight]));
}

void Trainer::ComputeMicroStep(const data::Batch& batch, int64_t micro_step, const optim::Rate& learning_rate) {
  if (micro_step == 0) {
    data_parallel_->ZeroGradients();
    sums_.zero_();
  }
  const bool is_last = micro_step + 1 == parts_.plan.batch.grad_accum_steps;
  ComputeForwardAndBackward(batch, /*reduce=*/is_last);
  if (!is_last) return;
  data_parallel_->AfterBackward();
  phases_.Enter(Phase::kExchange);
  exchange_->Run(sums_);
  Update(learning_rate);
}

// Nothing of a shard depends on the other shards of the step, so that it does not matter which rank computes it.
void Trainer::ComputeShards() {
  for (int64_t shard = 0; shard < shards_.count(); ++shard) {
    const data::Batch batch = NextBatch();
    shard_step_->Begin();
    sums_.zero_();
    ComputeForwardAndBackward(batch, /*reduce=*/false);
    shard_step_->End(sums_);
  }
  phases_.Enter(Phase::kExchange);
  shard_step_->Run(sums_);
}

void Trainer::ComputeForwardAndBackward(const data::Batch& batch, bool reduce) {
  phases_.Enter(Phase::kForward);
  const tasks::LossSums loss = parts_.task.Loss(batch);
  data_parallel_->BeforeBackward(reduce);
  phases_.Enter(Phase::kBackward);
  const at::Tensor scaled = update_.Scale(loss.loss_sum * FactorBeforeBackward());
  if (reduce && !parts_.communicator.is_alone()) {
    distributed::AfterLastGradient(scaled, [this] { phases_.CountAs(Phase::kExchange); });
  }
  scaled.backward();

  at::NoGradGuard no_grad;
  sums_[kLossSum] += loss.loss_sum;
  sums_[kWeight] += loss.weight;
  sums_[kUnits] += loss.units;
  if (loss.padding.defined()) sums_[kPadding] += loss.padding;
  if (loss.empty.defined()) sums_[kEmpty] += loss.empty;
  sums_[kSamples] += static_cast<double>(batch.size());
  if (loss.hits.defined()) sums_[kHits] += loss.hits;
}

void Trainer::Update(const optim::Rate& learning_rate) {
  phases_.Enter(Phase::kUpdate);
  std::optional<at::Tensor> skip;
  if (spikes_) skip = spikes_->Step(sums_);
  if (parts_.config.optimizer.on_spike == "log") skip.reset();
  exchange_->Keep(skip);
  update_.Apply(data_parallel_->gradients(), learning_rate, FactorOfUpdate(), skip);
  interval_.AddStep(sums_, update_);
}

void Trainer::ShowFirstBatch(const data::Batch& batch) {
  const at::Tensor pictures = parts_.task.Pictures(batch);
  if (pictures.defined()) parts_.reporter.FirstBatch(tasks::PictureGrid(pictures));
}

void Trainer::LogStep() {
  report::TrainPoint point = interval_.Line(progress_.step, update_);
  saving_.AddTo(point);
  parts_.reporter.Train(point);
  ReportTimes();
  saving_.ReportSaved();
  WarnOfWaiting(point);
  progress_.last_train_loss = point.loss;
  interval_.Restart();
  if (parts_.communicator.rank() == 0) {
    skipped_steps_.Line(progress_.step, point.skipped_steps, point.loss_scale);
    nothing_to_learn_.Line(progress_.step, point.text ? point.text->empty_samples : 0, point.empty_steps);
  }
  if (!std::isnan(point.loss)) RequireFinite(point.loss, progress_.step);
}

void Trainer::ReportTimes() {
  last_times_ = Clock::now();
  parts_.reporter.Times({progress_.step, phases_.times().UpToNow()});
}

// Warns once per run. The first line does not count, since its step waits until the loader has started.
void Trainer::WarnOfWaiting(const report::TrainPoint& point) {
  constexpr double kTolerated = 0.1;
  if (warned_of_waiting_ || point.step == 1 || point.data_seconds < kTolerated * point.step_seconds) return;
  warned_of_waiting_ = true;
  const WaitsFor waits_for = feed_.waits_for_storage()                        ? WaitsFor::kStorage
                             : point.speed_unit == report::SpeedUnit::kImages ? WaitsFor::kImageThreads
                             : parts_.task.has_perplexity()                   ? WaitsFor::kMaskingThreads
                                                                              : WaitsFor::kSentenceThreads;
  loop::WarnOfWaiting(point.data_seconds / point.step_seconds, waits_for, parts_.config.data.workers);
}

void Trainer::FinishEpoch() {
  parts_.reporter.Epoch({parts_.plan.EpochsDone(progress_.step), SecondsSince(epoch_start_)});
  epoch_start_ = Clock::now();
}

void Trainer::EvaluateNow() {
  if (!validation_) return;
  const auto start = Clock::now();
  phases_.Enter(Phase::kEvaluation);
  const auto evaluated = validation_.Run(progress_.step, average());
  if (!evaluated) SaveAndStop();  // the resumed run evaluates again: see EvaluationWasMissed
  report::ValPoint point = *evaluated;
  if (progress_.best) {
    const report::Metric& best = progress_.best->decisive();
    const report::Metric& now = point.decisive();
    point.best = report::IsBetter(now, best) ? now.value : best.value;
  }
  progress_.validation = point;
  parts_.reporter.Validation(point);
  NoteBest(point);
  phases_.Enter(Phase::kOther);
  ReportTimes();
  // Speeds do not include evaluations.
  interval_.LeaveOut(Clock::now() - start);
  evaluation_seconds_ += SecondsSince(start);
}

void Trainer::NoteBest(const report::ValPoint& point) {
  if (progress_.best && !report::IsBetter(point.decisive(), progress_.best->decisive())) return;
  progress_.best = point;
  saving_.SaveBest(progress_.step, AverageDecides(parts_.config.optimizer) ? average() : nullptr);
}

void Trainer::Save() {
  phases_.Enter(Phase::kSaving);  // KeepIn waits for the device
  interval_.KeepIn(progress_);
  if (spikes_) {
    if (!Rewinds()) GoesBackAfterSpikes();  // the saved state has their effect, so they would not be reported later
    progress_.losses = spikes_->Losses();
  }
  RequireFinite(progress_.interval_loss_sum, progress_.step);
  progress_.bucket_layout = data_parallel_->bucket_layout();
  saving_.Save(progress_, update_, average());
  ReportTimes();
}

report::RunResult Trainer::Result(Clock::time_point start) const {
  report::RunResult result;
  result.validation = progress_.validation;
  result.best = progress_.best;
  result.stopped_early = parts_.plan.WhyStopsEarly(progress_);
  result.train_loss = progress_.last_train_loss;
  result.step = progress_.step;
  result.epoch = parts_.plan.EpochAt(progress_.step);
  result.seconds = SecondsSince(start);
  result.samples_seen = parts_.train_batches.SamplesTaken(progress_.step + progress_.left_out_batches());
  for (int64_t left_out = 0; const Rewind& rewind : progress_.rewinds) {
    result.samples_seen += parts_.train_batches.SamplesTaken(rewind.step + left_out);
    left_out += rewind.batches;
    result.samples_seen -= parts_.train_batches.SamplesTaken(rewind.step + left_out);
  }
  result.world_size = parts_.communicator.world_size();
  result.speed_unit = parts_.task.speed_unit();
  result.speed = interval_.units_of_run() / (result.seconds - evaluation_seconds_);
  return result;
}

}  // namespace dtrain::loop
