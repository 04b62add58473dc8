#include "trainer/loop/training_step.h"

#include <ATen/ATen.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "data/joined.h"
#include "trainer/loop/training_health.h"
#include "trainer/report/log.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {

using report::Phase;

namespace {

// Copies what was saved into the state of the optimizer and the loss scale. What the checkpoint has nothing of, since
// the momentum was 0 or there was no scale, begins as in a new run, and is returned.
std::vector<std::string> CopyKnown(const std::vector<optim::NamedTensor>& state,
                                   const checkpoint::NamedTensors& saved) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : saved) names.insert(name);
  checkpoint::NamedTensors known;
  std::vector<std::string> begun;
  for (const auto& [name, tensor] : state) {
    if (names.contains(name)) {
      known.emplace_back(name, tensor);
    } else {
      begun.push_back(name);
    }
  }
  weights::CopyInto(known, saved);
  return begun;
}

}  // namespace

TrainingStep::TrainingStep(const TrainerParts& parts, Phases& phases, LogInterval& interval)
    : parts_(parts),
      phases_(phases),
      interval_(interval),
      shards_(config::DivisionOf(parts.plan.batch.shards, parts.communicator.rank(), parts.communicator.world_size())),
      computation_(parts.config, parts.plan.batch, parts.task, parts.communicator) {
  const bool on_device = !parts.device.is_cpu() || parts.step_graph != nullptr;
  if (on_device) rate_ = at::zeros({}, at::TensorOptions(at::kFloat).device(parts.device));
}

void TrainingStep::Restore(const Progress& progress, const checkpoint::Snapshot* restored) {
  const torch::nn::Module& module = parts_.task.module();
  optim::ParameterUpdate& update = computation_.update();
  if (restored != nullptr) {
    weights::CopyInto(weights::StateOf(module), restored->model);
    const std::vector<std::string> begun = CopyKnown(update.State(), restored->optimizer);
    if (!begun.empty()) {
      report::LogWarning("of the optimizer's state, the checkpoint lacks " + FirstOf(begun, /*most=*/3) +
                         ": this begins anew");
    }
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

int64_t TrainingStep::num_batches() const {
  return parts_.plan.batch.elastic ? shards_.count() : parts_.plan.batch.grad_accum_steps;
}

void TrainingStep::Begin(int64_t step) {
  const double rate = parts_.plan.LearningRate(step - 1);
  if (auto* on_device = std::get_if<at::Tensor>(&rate_)) {
    on_device->fill_(rate);
  } else {
    rate_ = rate;
  }
}

// Nothing of a shard depends on the other shards of the step, so that it does not matter which rank computes it.
void TrainingStep::Compute(const data::Batch& batch) {
  const bool is_shard = parts_.plan.batch.elastic, is_last = !is_shard && batch.part.last();
  if (is_shard) {
    computation_.BeginShard();
  } else if (batch.part.first()) {
    computation_.Begin();
  }
  phases_.Enter(Phase::kForward);
  computation_.Forward(batch);
  phases_.Enter(Phase::kBackward);
  computation_.Backward(/*reduce=*/is_last, [this] { phases_.CountAs(Phase::kExchange); });
  if (is_shard) computation_.EndShard();
  if (!is_last) return;
  computation_.EndBackward();
  phases_.Enter(Phase::kExchange);
  computation_.Exchange();
  Update();
}

void TrainingStep::Update() {
  phases_.Enter(Phase::kUpdate);
  std::optional<at::Tensor> skip;
  if (spikes_) skip = spikes_->Step(computation_.sums());
  if (parts_.config.optimizer.on_spike == "log") skip.reset();
  computation_.Update(rate_, skip);
  interval_.AddStep(computation_.sums(), computation_.update());
}

void TrainingStep::End(int64_t step) {
  if (parts_.plan.batch.elastic) {
    phases_.Enter(Phase::kExchange);
    computation_.ExchangeShards();
    Update();
  }
  interval_.EndStep();
  if (average_) average_->AfterStep(step);
  // On a GPU this waits for the device, so it is checked only in steps that are logged and wait anyway.
  if (parts_.device.is_cpu() || parts_.plan.ShouldLog(step)) {
    RequireUpdates(computation_.update().skipped_in_a_row(), parts_.config.optimizer.max_skipped_steps, step);
  }
}

}  // namespace dtrain::loop
