// Read Run() first.
#include "trainer/loop/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/errors.h"
#include "trainer/loop/stop_signal.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

using Clock = std::chrono::steady_clock;
using report::Phase;
using report::SecondsSince;

constexpr double kSecondsBetweenTimes = 10;  // the first step that ends later reports them

// Returns the spike with the samples of its step, over all ranks.
report::SpikePoint PointOf(const Spike& spike, const TrainerParts& parts) {
  constexpr int64_t kMostSamples = 256;
  const std::vector<int64_t> samples = parts.train_batches.SamplesOfStep(spike.step);
  report::SpikePoint point{.step = spike.step,
                           .loss = spike.loss,
                           .mean = spike.mean,
                           .deviation = spike.deviation,
                           .action = parts.config.optimizer.on_spike,
                           .samples_of_step = static_cast<int64_t>(samples.size())};
  for (int64_t i = 0; i < std::min(point.samples_of_step, kMostSamples); ++i) {
    const int64_t index = samples[static_cast<size_t>(i)];
    point.samples.push_back({index, parts.data.train->source->Place(index)});
  }
  return point;
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer)
    : parts_(parts),
      quarantine_(MakeRunQuarantine(*parts.data.train, parts.config.data,
                                    parts.files.quarantine(parts.communicator.rank()), "replaced", parts.control)),
      validation_(parts_),
      profiler_(config::ParseStepRange(parts.config.report.profile_steps),
                parts.files.root / "profile" / ("rank-" + std::to_string(parts.communicator.rank()) + ".json"),
                parts.device, parts.step_graph != nullptr,
                [&reporter = parts.reporter](const std::string& line) { reporter.Note(line); }),
      phases_(parts.control, profiler_, parts.device.is_cpu(), parts.communicator.is_alone()),
      saving_(parts_, writer, phases_),
      interval_(parts_, phases_.times()),
      step_(parts_, phases_, interval_) {}

void Trainer::Restore(const Progress& progress, const checkpoint::Snapshot* restored) {
  progress_ = progress;
  skipped_steps_ = SkippedSteps(progress.step - interval_.Restore(progress));
  step_.Restore(progress, restored);
}

report::RunResult Trainer::Run() {
  const Plan& plan = parts_.plan;
  const int64_t last_step = LastStep();
  start_ = epoch_start_ = Clock::now();
  saving_.Start();
  interval_.Start();
  phases_.Enter(Phase::kOther);
  ReportTimes();
  if (progress_.best && progress_.best->step == progress_.step && saving_.LacksBestOf(progress_.step)) SaveBest();
  if (EvaluationWasMissed()) {
    EvaluateNow();
    if (progress_.step >= last_step || StopsEarly()) RequireGoodEnd(End());
    if (StopsEarly()) Save();
  }
  const bool is_over = progress_.step >= last_step || StopsEarly();
  if (!is_over) StartFeed();
  if (is_over && saving_.LacksWeightsOf(progress_.step, step_.average() != nullptr)) Save();
  for (bool last = is_over; !last;) {
    profiler_.Before(progress_.step + 1);
    TrainStep();
    phases_.Enter(Phase::kOther);
    profiler_.After(progress_.step);
    StopsAreOrderly();
    const bool stop = parts_.control.StopsHere(progress_.step);
    last = progress_.step == last_step;
    // On a GPU this waits for the device, which logging and saving do anyway.
    if (parts_.device.is_cpu() || plan.ShouldLog(progress_.step)) ReportSpikes();
    parts_.reporter.Step(progress_.step, plan.EpochAt(progress_.step));
    if (plan.ShouldLog(progress_.step)) {
      LogStep();
    } else if (last) {
      NoteLoss(interval_.Line(progress_.step, step_.update()));
    }
    if (SecondsSince(last_times_) > kSecondsBetweenTimes) ReportTimes();
    if (plan.EndsEpoch(progress_.step)) FinishEpoch();
    if (stop && !last) SaveAndStop();
    if (last || plan.ShouldEvaluate(progress_.step)) EvaluateNow();
    last = last || StopsEarly();
    if (last) RequireGoodEnd(End());
    if (last || saving_.IsDueByTime() || plan.ShouldSave(progress_.step)) Save();
  }
  feed_.reset();
  saving_.Finish();
  profiler_.Finish();
  ReportTimes();
  return Result();
}

int64_t Trainer::LastStep() const {
  const int64_t limit = parts_.config.run.limit_train_steps;
  return limit > 0 ? std::min(parts_.plan.total_steps, progress_.step + limit) : parts_.plan.total_steps;
}

// A run may have been stopped between the end of an epoch and its evaluation, or have now more steps done than to do.
bool Trainer::EvaluationWasMissed() const {
  const bool evaluated = progress_.validation && progress_.validation->step == progress_.step;
  const bool is_due = parts_.plan.ShouldEvaluate(progress_.step) || progress_.step > parts_.plan.total_steps;
  return progress_.step > 0 && is_due && !evaluated;
}

void Trainer::SaveAndStop() {
  StopsAreOrderly();  // also in the evaluation that a resumed run begins with
  Save();
  saving_.Finish();
  profiler_.Finish();
  ReportTimes();
  throw Preempted("stopped at step " + std::to_string(progress_.step) + " after a clean save",
                  "run it again with --run_dir=" + parts_.files.root.string() +
                      (parts_.config.run.resume == "auto" ? "" : " --resume=auto") + " to go on");
}

// The first batch is that of the step after those that are done.
void Trainer::StartFeed() {
  const config::ShardRange shards =
      config::DivisionOf(parts_.plan.batch.shards, parts_.communicator.rank(), parts_.communicator.world_size());
  feed_.emplace(*parts_.data.train, parts_.task, parts_.config,
                parts_.train_batches.BatchesOf(shards, parts_.plan.total_steps), data::BadRecordPolicy::kReplace,
                progress_.step * step_.num_batches(), *quarantine_);
}

// Each micro-step has a graph of its own, since each is seeded and may have a batch of another shape.
void Trainer::TrainStep() {
  const int64_t step = progress_.step + 1;
  step_.Begin(step);
  for (int64_t number = 0; number < step_.num_batches(); ++number) {
    const data::Batch batch = NextBatch();
    if (parts_.step_graph == nullptr) {
      step_.Compute(batch);
      continue;
    }
    phases_.Enter(Phase::kForward);  // a replayed step enters no phase itself, and must not seem to wait for data
    parts_.step_graph->Run(batch, [this](const data::Batch& inputs) { step_.Compute(inputs); });
  }
  if (parts_.step_graph != nullptr && parts_.step_graph->replayed() && !std::exchange(said_replayed_, true)) {
    report::LogInfo("steps are replayed as a CUDA graph from step " + std::to_string(step) + " on");
  }
  step_.End(step);
  ++progress_.step;
  if (reported_step_ != nullptr) *reported_step_ = progress_.step;
}

// Waits for the batch of the next micro-step or shard, and seeds the random generators for it.
data::Batch Trainer::NextBatch() {
  phases_.Enter(Phase::kData);
  data::Batch batch = *feed_->Next();
  phases_.Enter(Phase::kOther);
  if (parts_.reporter.wants_first_batch() && batch.number == 0) {
    const report::Picture picture = parts_.task.PictureOf(batch);
    if (picture.width > 0) parts_.reporter.FirstBatch(picture);
  }
  SeedTask(parts_.config.batch.seed, batch.part, parts_.device);
  return batch;
}

void Trainer::LogStep() {
  report::TrainPoint point = interval_.Line(progress_.step, step_.update());
  saving_.AddTo(point);
  parts_.reporter.Train(point);
  ReportTimes();
  saving_.ReportSaved();
  WarnOfWaiting(point);
  NoteLoss(point);
  interval_.Restart();
  if (parts_.communicator.rank() == 0) {
    skipped_steps_.Line(progress_.step, point.skipped_steps, point.loss_scale);
    nothing_to_learn_.Line(progress_.step, point.text ? point.text->empty_samples : 0, point.empty_steps);
  }
}

void Trainer::NoteLoss(const report::TrainPoint& point) {
  progress_.last_train_loss = point.loss;
  last_line_is_lost_ = std::isnan(point.loss) && point.skipped_steps > 0;
}

void Trainer::ReportSpikes() {
  if (step_.spikes() == nullptr) return;
  for (const Spike& spike : step_.spikes()->Take(progress_.step)) {
    if (parts_.communicator.rank() == 0) parts_.reporter.Spike(PointOf(spike, parts_));
  }
}

void Trainer::ReportTimes() {
  last_times_ = Clock::now();
  parts_.reporter.Times({progress_.step, phases_.times().UpToNow()});
}

// Warns once per run. The first seconds and the first line do not count, since the loader starts in them.
void Trainer::WarnOfWaiting(const report::TrainPoint& point) {
  constexpr double kTolerated = 0.1, kSecondsOfStart = 2;
  if (warned_of_waiting_ || point.step == 1 || SecondsSince(start_) < kSecondsOfStart) return;
  if (point.data_seconds < kTolerated * point.step_seconds) return;
  warned_of_waiting_ = true;
  const bool for_storage = feed_->waits_for_storage() && !parts_.data.train->source->is_in_memory();
  loop::WarnOfWaiting(point.data_seconds / point.step_seconds, for_storage, parts_.config.data.workers,
                      parts_.task.speed_unit() == report::SpeedUnit::kImages);
}

void Trainer::FinishEpoch() {
  parts_.reporter.Epoch({parts_.plan.EpochsDone(progress_.step), SecondsSince(epoch_start_)});
  epoch_start_ = Clock::now();
}

void Trainer::EvaluateNow() {
  if (!validation_) return;
  const auto start = Clock::now();
  phases_.Enter(Phase::kEvaluation);
  const auto evaluated = validation_.Run(progress_.step, step_.average());
  if (!evaluated) SaveAndStop();  // the resumed run evaluates again: see EvaluationWasMissed
  report::ValPoint point = *evaluated;
  if (progress_.best) {
    const report::Metric& now = point.decisive();
    progress_.best->DecideBy(now.name);  // another metric, or other weights, may have decided before a resume
    const report::Metric& best = progress_.best->decisive();
    point.best = report::IsBetter(now, best) ? now.value : best.value;
  }
  progress_.validation = point;
  parts_.reporter.Validation(point);
  NoteBest(point);
  phases_.Enter(Phase::kOther);
  ReportTimes();
  // Speeds do not include evaluations.
  interval_.LeaveOut(Clock::now() - start);
  epoch_start_ += Clock::now() - start;
  evaluation_seconds_ += SecondsSince(start);
}

void Trainer::NoteBest(const report::ValPoint& point) {
  if (!HasFiniteLoss(point)) return;
  if (progress_.best && !report::IsBetter(point.decisive(), progress_.best->decisive())) return;
  progress_.best = point;
  SaveBest();
}

void Trainer::SaveBest() {
  const bool is_average = progress_.best->decisive().name.starts_with(report::kOfAverage);
  saving_.SaveBest(progress_.step, is_average ? step_.average() : nullptr);
}

void Trainer::Save() {
  phases_.Enter(Phase::kSaving);  // KeepIn waits for the device
  interval_.KeepIn(progress_);
  ReportSpikes();  // the saved state has their effect, so they would not be reported later
  if (step_.spikes() != nullptr) progress_.losses = step_.spikes()->Losses();
  progress_.bucket_layout = step_.bucket_layout();
  saving_.Save(progress_, step_.update(), step_.average());
  ReportTimes();
}

// With --limit_train_steps a run may end in a row of skipped steps, as it goes on later.
RunEnd Trainer::End() const {
  const bool is_over = progress_.step == parts_.plan.total_steps || StopsEarly();
  return {.step = progress_.step,
          .skipped_in_a_row = is_over ? step_.update().skipped_in_a_row() : 0,
          .most_skipped = parts_.config.optimizer.max_skipped_steps,
          .loss_is_finite = validation_ ? HasFiniteLoss(*progress_.validation) : !last_line_is_lost_};
}

report::RunResult Trainer::Result() const {
  report::RunResult result;
  // An earlier start may have had a validation that this one lacks.
  if (progress_.validation && progress_.validation->step == progress_.step) result.validation = progress_.validation;
  result.best = progress_.best;
  if (progress_.step < parts_.plan.total_steps) result.stopped_early = parts_.plan.WhyStopsEarly(progress_);
  result.train_loss = progress_.last_train_loss;
  result.step = progress_.step;
  result.epoch = parts_.plan.EpochAt(progress_.step);
  result.seconds = SecondsSince(start_);
  result.samples_seen = parts_.train_batches.SamplesTaken(progress_.step);
  result.world_size = parts_.communicator.world_size();
  result.speed_unit = parts_.task.speed_unit();
  result.speed = interval_.units_of_run() / (result.seconds - evaluation_seconds_);
  return result;
}

}  // namespace dtrain::loop
