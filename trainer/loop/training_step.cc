#include "trainer/loop/training_step.h"

#include <ATen/ATen.h>

#include <string>

#include "trainer/errors.h"
#include "trainer/loop/make_parameter_update.h"
#include "trainer/loop/training_health.h"
#include "trainer/report/log.h"
#include "trainer/tasks/picture_grid.h"
#include "trainer/tasks/task_seed.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {

using report::Phase;

TrainingStep::TrainingStep(const TrainerParts& parts, TrainFeed& feed, Phases& phases, LogInterval& interval)
    : parts_(parts),
      feed_(feed),
      phases_(phases),
      interval_(interval),
      shards_(config::DivisionOf(parts.plan.batch.shards, parts.communicator.rank(), parts.communicator.world_size())),
      nominal_weight_(parts.task.NominalWeight(parts.plan.batch.global_batch_size)),
      update_(MakeParameterUpdate(parts.config, parts.task.module(), parts.device)),
      learning_rate_(at::zeros({}, at::TensorOptions(at::kFloat).device(parts.device))),
      sums_(at::zeros({kNumStepSums}, learning_rate_.options())) {}

TrainingStep::~TrainingStep() = default;

void TrainingStep::Restore(const Progress& progress, const checkpoint::Snapshot* restored) {
  shard_step_.reset();  // made anew below, also after a rewind
  data_parallel_.reset();
  torch::nn::Module& module = parts_.task.module();
  module.zero_grad(/*set_to_none=*/true);
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
  if (parts_.config.optimizer.spike_factor > 0) {
    spikes_ = std::make_unique<SpikeWatch>(parts_.config.optimizer, progress.losses, parts_.device);
  }

  OnTheStreamOf(parts_.step_graph, [&] {
    data_parallel_ = std::make_unique<distributed::DataParallel>(
        weights::ParametersOf(module), parts_.communicator,
        DataParallelOptionsOf(parts_.config.ranks, parts_.plan.batch.grad_accum_steps), progress.bucket_layout);
  });
  exchange_ = std::make_unique<distributed::StepExchange>(weights::RunningStatistics(module), kNumStepSums,
                                                          parts_.device, parts_.communicator);
  if (parts_.plan.batch.elastic) {
    shard_step_ = std::make_unique<distributed::ShardStep>(
        shards_.total, *data_parallel_, *exchange_, weights::BatchCounters(module), parts_.device, parts_.communicator);
  }
}

void TrainingStep::Run(int64_t step) {
  const double learning_rate = parts_.plan.LearningRate(step - 1);
  if (parts_.step_graph != nullptr) {
    Replay(step, learning_rate);
  } else {
    Compute(learning_rate);
  }
  interval_.EndStep();
  if (average_) average_->AfterStep(step);
  // On a GPU this waits for the device, so it is checked only in steps that are logged and wait anyway.
  if (parts_.device.is_cpu() || parts_.plan.ShouldLog(step)) {
    RequireUpdates(update_.skipped_in_a_row(), parts_.config.optimizer.max_skipped_steps, step);
  }
}

// Each micro-step has a graph of its own, since each is seeded and may have a batch of another shape.
void TrainingStep::Replay(int64_t step, double learning_rate) {
  const int64_t micro_steps = parts_.plan.batch.grad_accum_steps;
  for (int64_t micro_step = 0; micro_step < micro_steps; ++micro_step) {
    const data::Batch next = NextBatch();
    phases_.Enter(Phase::kForward);  // a replayed step enters no phase itself, and must not seem to wait for data
    const PlaceInStep place{.first = micro_step == 0, .last = micro_step + 1 == micro_steps};
    parts_.step_graph->Run(next, place, learning_rate, [=, this](const data::Batch& batch, const at::Tensor& rate) {
      ComputeMicroStep(batch, micro_step, rate);
    });
  }
  SayOnceThatStepsAreReplayed(step);
}

// On a GPU the rate is what it is for recorded steps, so that --cuda_graphs does not change the bits of a run.
optim::Rate TrainingStep::RateOnDevice(double learning_rate) {
  if (parts_.device.is_cpu()) return learning_rate;
  return learning_rate_.fill_(learning_rate);
}

void TrainingStep::SayOnceThatStepsAreReplayed(int64_t step) {
  if (said_replayed_ || !parts_.step_graph->replayed()) return;
  said_replayed_ = true;
  report::LogInfo("steps are replayed as a CUDA graph from step " + std::to_string(step) + " on");
}

data::Batch TrainingStep::NextBatch() {
  phases_.Enter(Phase::kData);
  data::Batch batch = feed_.Next();
  phases_.Enter(Phase::kOther);
  if (parts_.reporter.wants_first_batch() && batch.number == 0) ShowFirstBatch(batch);
  tasks::SeedTask(parts_.config.batch.seed, batch.part, parts_.device);
  return batch;
}

void TrainingStep::ShowFirstBatch(const data::Batch& batch) {
  const at::Tensor pictures = parts_.task.Pictures(batch);
  if (pictures.defined()) parts_.reporter.FirstBatch(tasks::PictureGrid(pictures));
}

void TrainingStep::Compute(double learning_rate) {
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
double TrainingStep::FactorBeforeBackward() const {
  return (shard_step_ ? 1.0 : static_cast<double>(parts_.communicator.world_size())) / nominal_weight_;
}

std::optional<at::Tensor> TrainingStep::FactorOfUpdate() const {
  if (!parts_.task.weight_varies()) return std::nullopt;
  return at::where(sums_[kWeight] > 0, nominal_weight_ / sums_[kWeight], at::zeros_like(sums_[kWeight]));
}

void TrainingStep::ComputeMicroStep(const data::Batch& batch, int64_t micro_step, const optim::Rate& learning_rate) {
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
void TrainingStep::ComputeShards() {
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

void TrainingStep::ComputeForwardAndBackward(const data::Batch& batch, bool reduce) {
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

void TrainingStep::Update(const optim::Rate& learning_rate) {
  phases_.Enter(Phase::kUpdate);
  std::optional<at::Tensor> skip;
  if (spikes_) skip = spikes_->Step(sums_);
  if (parts_.config.optimizer.on_spike == "log") skip.reset();
  exchange_->Keep(skip);
  update_.Apply(data_parallel_->gradients(), learning_rate, FactorOfUpdate(), skip);
  interval_.AddStep(sums_, update_);
}

}  // namespace dtrain::loop
