// Steps per epoch are a fraction in general. WholePart rounds products with it safely.
#include "trainer/loop/plan.h"

#include <algorithm>
#include <cmath>

#include "data/joined.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/loop/training_state.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

constexpr double kMostSteps = 1e15;  // more than any run takes; --epochs may be any number

int64_t Floor(double value) { return static_cast<int64_t>(optim::WholePart(std::min(value, kMostSteps))); }

// The place in the schedule at which so many epochs end. It may lie within a step where the rate changes by epoch.
double EndOf(double epochs, const config::ScheduleConfig& schedule, const Plan& plan) {
  const double steps = std::min(epochs * plan.steps_per_epoch, kMostSteps);
  return schedule.per_epoch ? steps : optim::WholePart(steps);
}

double EndOfWarmup(const config::ScheduleConfig& schedule, const Plan& plan) {
  if (schedule.warmup_steps) return static_cast<double>(*schedule.warmup_steps);
  // To the digit as Hugging Face's Trainer, which has 8 for 0.07 of 100 steps.
  if (schedule.warmup_fraction > 0) return std::ceil(schedule.warmup_fraction * static_cast<double>(plan.total_steps));
  return EndOf(schedule.warmup_epochs, schedule, plan);
}

double EndOfSchedule(const config::Config& config, const Plan& plan) {
  if (config.schedule.schedule_steps) return static_cast<double>(*config.schedule.schedule_steps);
  const double end = EndOf(config.batch.epochs, config.schedule, plan);
  return config.batch.max_steps ? std::min(end, static_cast<double>(*config.batch.max_steps)) : end;
}

void RequireSteps(const Plan& plan, double epochs) {
  if (plan.total_steps >= 1) return;
  throw UsageError("the run has no steps: " + std::to_string(plan.train_samples) +
                       " training samples in --epochs=" + config::ToText(config::Value(epochs)) +
                       " are less than the global batch of " + std::to_string(plan.batch.global_batch_size),
                   "lower --batch_size or --global_batch_size, or raise --epochs");
}

void RequireWarmupFits(const config::ScheduleConfig& schedule, const Plan& plan) {
  const int64_t warmup = plan.WarmupSteps();
  if (!schedule.schedule_steps || warmup <= *schedule.schedule_steps) return;
  const std::string flag = schedule.warmup_steps          ? "--warmup_steps"
                           : schedule.warmup_fraction > 0 ? "--warmup_fraction"
                                                          : "--warmup_epochs";
  throw UsageError(flag + " is a warmup of " + CountOf(warmup, "step") +
                       ", longer than the schedule of --schedule_steps=" + std::to_string(*schedule.schedule_steps),
                   "shorten it, or raise --schedule_steps");
}

}  // namespace

int64_t Plan::WarmupSteps() const { return Floor(schedule.warmup_steps); }

std::string Plan::WarningOfWarmup() const {
  if (WarmupSteps() <= total_steps) return {};
  return "the run of " + CountOf(total_steps, "step") + " ends in the warmup of " + std::to_string(WarmupSteps()) +
         ": its learning rate reaches " + config::ToText(config::Value(LearningRate(total_steps - 1))) +
         " of a peak of " + config::ToText(config::Value(schedule.peak));
}

int64_t Plan::EpochsDone(int64_t step) const { return Floor(EpochAt(step)); }

double Plan::EvaluatedEpoch(int64_t step) const {
  if (run.eval_every_steps > 0) return EpochAt(step);
  if (run.eval_every_epochs <= 0) return 0;
  if (!IsDue(step, run.eval_every_epochs, 0)) {
    return EndsEpoch(step) ? static_cast<double>(EpochsDone(step)) : EpochAt(step);
  }
  return run.eval_every_epochs * static_cast<double>(Floor(EpochAt(step) / run.eval_every_epochs));
}

int64_t Plan::FirstStepOf(int64_t epoch) const {
  const double steps_before = static_cast<double>(epoch) * steps_per_epoch;
  return 1 + static_cast<int64_t>(optim::NextWhole(steps_before));
}

std::string Plan::WhyStopsEarly(const Progress& progress) const {
  const double patience = run.stop_after_epochs_without_gain;
  if (!(patience > 0) || !progress.validation || !progress.best) return "";
  if (progress.validation->step != progress.step) return "";  // this step has not been evaluated
  const double now = EvaluatedEpoch(progress.step), without_gain = now - EvaluatedEpoch(progress.best->step);
  if (without_gain + now * optim::kTolerance < patience) return "";
  const report::Metric& best = progress.best->decisive();
  return report::Format("no better %s than %.*f of step %lld in %g epochs", best.name.c_str(), best.decimals,
                        best.value, static_cast<long long>(progress.best->step), without_gain);
}

bool Plan::IsDue(int64_t step, double every_epochs, int64_t every_steps) const {
  if (step == total_steps) return true;
  if (step == 0) return false;
  if (every_steps > 0 && step % every_steps == 0) return true;
  if (every_epochs <= 0) return false;
  return Floor(EpochAt(step) / every_epochs) > Floor(EpochAt(step - 1) / every_epochs);
}

bool Plan::EndsEpoch(int64_t step) const { return step > 0 && EpochsDone(step) > EpochsDone(step - 1); }
bool Plan::ShouldEvaluate(int64_t step) const { return IsDue(step, run.eval_every_epochs, run.eval_every_steps); }
bool Plan::ShouldSave(int64_t step) const { return IsDue(step, run.save_every_epochs, run.save_every_steps); }
bool Plan::ShouldLog(int64_t step) const { return step == 1 || step == total_steps || step % log_interval == 0; }

Plan MakePlan(const config::Config& config, int64_t train_samples, int world_size, int64_t units,
              int64_t units_per_step, int64_t shards) {
  Plan plan;
  plan.train_samples = train_samples;
  plan.batch = config::ResolveBatch(config.batch, world_size);
  plan.steps_per_epoch = static_cast<double>(units) / static_cast<double>(shards * units_per_step);
  if (config.data.last_batch == "drop") plan.steps_per_epoch = std::floor(plan.steps_per_epoch);
  plan.total_steps = Floor(config.batch.epochs * plan.steps_per_epoch);
  RequireSteps(plan, config.batch.epochs);
  if (config.batch.max_steps) plan.total_steps = std::min(plan.total_steps, *config.batch.max_steps);

  plan.schedule = {.flags = config.schedule,
                   .peak = config.optimizer.lr.value(),
                   .warmup_steps = EndOfWarmup(config.schedule, plan),
                   .total_steps = EndOfSchedule(config, plan),
                   .steps_per_epoch = plan.steps_per_epoch};
  plan.ema_decay = config::EmaDecay(config.optimizer, config.batch.epochs, plan.batch.global_batch_size);
  plan.schedule.peak *= config::LearningRateFactor(config.optimizer, plan.batch.global_batch_size);
  RequireWarmupFits(config.schedule, plan);

  plan.run = config.run;
  plan.log_interval = config.report.log_interval;
  if (!config::WasGiven(config, "log_interval")) {  // a curve has a point of training at least for each epoch
    plan.log_interval = std::clamp<int64_t>(static_cast<int64_t>(plan.steps_per_epoch), 1, plan.log_interval);
  }
  return plan;
}

}  // namespace dtrain::loop
