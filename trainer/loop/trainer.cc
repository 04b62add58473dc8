// Read Run() first.
#include "trainer/loop/trainer.h"

#include <algorithm>
#include <cmath>

#include "trainer/errors.h"
#include "trainer/loop/spike_log.h"
#include "trainer/loop/stop_signal.h"
#include "trainer/loop/training_health.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

using Clock = std::chrono::steady_clock;
using report::Phase;

constexpr double kSecondsBetweenTimes = 10;  // the first step that ends later reports them

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Trainer::Trainer(const TrainerParts& parts, checkpoint::AsyncWriter* writer)
    : parts_(parts),
      feed_(parts_),
      validation_(parts_),
      profiler_(config::ParseStepRange(parts.config.report.profile_steps),
                parts.files.root / "profile" / ("rank-" + std::to_string(parts.communicator.rank()) + ".json"),
                parts.device, parts.step_graph != nullptr,
                [&reporter = parts.reporter](const std::string& line) { reporter.Note(line); }),
      phases_(parts.control, profiler_, parts.device.is_cpu(), parts.communicator.is_alone()),
      saving_(parts_, writer, phases_),
      interval_(parts_, phases_.times()),
      step_(parts_, feed_, phases_, interval_) {}

Trainer::~Trainer() = default;

void Trainer::Restore(const Progress& progress, const checkpoint::Snapshot* restored) {
  progress_ = progress;
  skipped_steps_ = SkippedSteps(progress.step);
  interval_.Restore(progress);
  step_.Restore(progress, restored);
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
    const bool by_time = saving_.IsDueByTime() && !(Rewinds() && step_.spikes()->HasSpikes());
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
  return step_.spikes() != nullptr && (stop || last || parts_.device.is_cpu() || plan.ShouldLog(step) ||
                                       plan.ShouldEvaluate(step) || plan.ShouldSave(step));
}

bool Trainer::GoesBackAfterSpikes() {
  for (const Spike& spike : step_.spikes()->Take(progress_.step)) {
    if (Rewinds()) {
      GoBack(spike);
      return true;
    }
    ReportSpike(parts_, progress_, spike, parts_.config.optimizer.on_spike);
  }
  return false;
}

// The batches from the checkpoint up to that of the spike are left out. The file of spikes remembers this until the
// next checkpoint does.
void Trainer::GoBack(const Spike& spike) {
  feed_.Stop();
  saving_.Finish();
  ReportTimes();
  phases_.Enter(Phase::kSaving);  // the other ranks wait for the first one, which reads
  LastSave last = parts_.read_last_save();
  const Rewind rewind = RewindAfter(spike, last.progress.step);
  last.progress.rewinds = progress_.rewinds;
  if (!AddRewind(rewind, last.progress.rewinds)) {
    ReportSpike(parts_, progress_, spike, "stop");
    ThrowTooManyRewinds(spike, rewind.step);
  }
  ReportSpike(parts_, progress_, spike, "rewind", rewind);

  if (parts_.step_graph != nullptr) parts_.step_graph->Forget();
  interval_.Restart();
  Restore(last.progress, last.snapshot ? &*last.snapshot : nullptr);
  parts_.reporter.GoBack(progress_.step, parts_.plan.EpochAt(progress_.step));
  if (reported_step_ != nullptr) *reported_step_ = progress_.step;
  ReportTimes();
  feed_.Start(progress_.step, progress_.left_out_batches());
}

void Trainer::TrainStep() {
  step_.Run(progress_.step + 1);
  ++progress_.step;
  if (reported_step_ != nullptr) *reported_step_ = progress_.step;
}

void Trainer::LogStep() {
  report::TrainPoint point = interval_.Line(progress_.step, step_.update());
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
  const WaitsFor storage = parts_.config.data.cache == "ram" ? WaitsFor::kCachedStorage : WaitsFor::kStorage;
  const WaitsFor waits_for = feed_.waits_for_storage()                        ? storage
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
  const auto evaluated = validation_.Run(progress_.step, step_.average());
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
  saving_.SaveBest(progress_.step, AverageDecides(parts_.config.optimizer) ? step_.average() : nullptr);
}

void Trainer::Save() {
  phases_.Enter(Phase::kSaving);  // KeepIn waits for the device
  interval_.KeepIn(progress_);
  if (step_.spikes() != nullptr) {
    if (!Rewinds()) GoesBackAfterSpikes();  // the saved state has their effect, so they would not be reported later
    progress_.losses = step_.spikes()->Losses();
  }
  RequireFinite(progress_.interval_loss_sum, progress_.step);
  progress_.bucket_layout = step_.bucket_layout();
  saving_.Save(progress_, step_.update(), step_.average());
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
  result.samples_seen = SamplesSeen(parts_.train_batches, progress_);
  result.world_size = parts_.communicator.world_size();
  result.speed_unit = parts_.task.speed_unit();
  result.speed = interval_.units_of_run() / (result.seconds - evaluation_seconds_);
  return result;
}

}  // namespace dtrain::loop
