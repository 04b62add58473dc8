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
      computation_(parts.config, parts.plan.batch, parts.task, parts.communicator),
      learning_rate_(at::zeros({}, at::TensorOptions(at::kFloat).device(parts.device))) {}

TrainingStep::~TrainingStep() = default;

void TrainingStep::Restore(const Progress& progress, const checkpoint::Snapshot* restored) {
  const torch::nn::Module& module = parts_.task.module();
  optim::ParameterUpdate& update = computation_.update();
  if (restored != nullptr) {
    weights::CopyInto(weights::StateOf(module), restored->model);
    weights::CopyInto(update.State(), restored->optimizer);
  }
  average_ = MakeWeightAverage(parts_.config.optimizer, parts_.plan, module, restored);
  std::vector<at::Tensor> replicated;
  for (const auto& [name, tensor] : weights::StateOf(module)) replicated.push_back(tensor.detach());
  for (const auto& [name, tensor] : update.State()) replicated.push_back(tensor);
  for (size_t i = 0; average_ && i < average_->tensors().size(); ++i) {
    replicated.push_back(average_->tensors()[i].second);
  }
  parts_.communicator.BroadcastFromFirst(replicated);
  update.WeightsChanged();
  if (parts_.config.optimizer.spike_factor > 0) {
    spikes_ = std::make_unique<SpikeWatch>(parts_.config.optimizer, progress.losses, parts_.device);
  }
  computation_.Connect(parts_.step_graph, progress.bucket_layout);
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
    RequireUpdates(computation_.update().skipped_in_a_row(), parts_.config.optimizer.max_skipped_steps, step);
  }
}

// Each micro-step has a graph of its own, since each is seeded and may have a batch of another shape.
void TrainingStep::Replay(int64_t step, double learning_rate) {
  const int64_t micro_steps = parts_.plan.batch.grad_accum_steps;
  for (int64_t micro_step = 0; micro_step < micro_steps; ++micro_step) {
    const data::Batch next = NextBatch();
    phases_.Enter(Phase::kForward);  // a replayed step enters no phase itself, and must not seem to wait for data
    parts_.step_graph->Run(next, learning_rate, [=, this](const data::Batch& batch, const at::Tensor& rate) {
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
  if (parts_.plan.batch.elastic) {
    ComputeShards();
    return Update(rate);
  }
  for (int64_t micro_step = 0; micro_step < parts_.plan.batch.grad_accum_steps; ++micro_step) {
    ComputeMicroStep(NextBatch(), micro_step, rate);
  }
}

void TrainingStep::ComputeMicroStep(const data::Batch& batch, int64_t micro_step, const optim::Rate& learning_rate) {
  if (micro_step == 0) computation_.Begin();
  const bool is_last = micro_step + 1 == parts_.plan.batch.grad_accum_steps;
  ComputeForwardAndBackward(batch, /*reduce=*/is_last);
  if (!is_last) return;
  computation_.EndBackward();
  phases_.Enter(Phase::kExchange);
  computation_.Exchange();
  Update(learning_rate);
}

// Nothing of a shard depends on the other shards of the step, so that it does not matter which rank computes it.
void TrainingStep::ComputeShards() {
  for (int64_t shard = 0; shard < shards_.count(); ++shard) {
    const data::Batch batch = NextBatch();
    computation_.BeginShard();
    ComputeForwardAndBackward(batch, /*reduce=*/false);
    computation_.EndShard();
  }
  phases_.Enter(Phase::kExchange);
  computation_.ExchangeShards();
}

void TrainingStep::ComputeForwardAndBackward(const data::Batch& batch, bool reduce) {
  phases_.Enter(Phase::kForward);
  computation_.Forward(batch);
  phases_.Enter(Phase::kBackward);
  computation_.Backward(reduce, [this] { phases_.CountAs(Phase::kExchange); });
}

void TrainingStep::Update(const optim::Rate& learning_rate) {
  phases_.Enter(Phase::kUpdate);
  std::optional<at::Tensor> skip;
  if (spikes_) skip = spikes_->Step(computation_.sums());
  if (parts_.config.optimizer.on_spike == "log") skip.reset();
  computation_.Update(learning_rate, skip);
  interval_.AddStep(computation_.sums(), computation_.update());
}

}  // namespace dtrain::loop
