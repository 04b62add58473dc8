#include "trainer/loop/step_computation.h"

#include <ATen/ATen.h>

#include <utility>

#include "trainer/loop/make_parameter_update.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {

StepComputation::StepComputation(const config::Config& config, const config::BatchSizes& sizes, tasks::Task& task,
                                 distributed::Communicator& communicator)
    : ranks_(config.ranks),
      sizes_(sizes),
      task_(task),
      communicator_(communicator),
      nominal_weight_(task.NominalWeight(sizes.global_batch_size)),
      update_(MakeParameterUpdate(config, task.module(), task.device())),
      sums_(at::zeros({kNumStepSums}, at::TensorOptions(at::kFloat).device(task.device()))) {}

StepComputation::~StepComputation() = default;

void StepComputation::Connect(StepGraph* graph, const distributed::BucketLayout& layout) {
  shard_step_.reset();
  data_parallel_.reset();
  torch::nn::Module& module = task_.module();
  module.zero_grad(/*set_to_none=*/true);
  OnTheStreamOf(graph, [&] {
    data_parallel_ = std::make_unique<distributed::DataParallel>(
        weights::ParametersOf(module), communicator_, DataParallelOptionsOf(ranks_, sizes_.grad_accum_steps), layout);
  });
  exchange_ = std::make_unique<distributed::StepExchange>(weights::RunningStatistics(module), kNumStepSums,
                                                          task_.device(), communicator_);
  if (sizes_.elastic) {
    shard_step_ = std::make_unique<distributed::ShardStep>(
        sizes_.shards, *data_parallel_, *exchange_, weights::BatchCounters(module), task_.device(), communicator_);
  }
}

void StepComputation::Begin() {
  data_parallel_->ZeroGradients();
  sums_.zero_();
}

void StepComputation::BeginShard() {
  shard_step_->Begin();
  sums_.zero_();
}

void StepComputation::Forward(const data::Batch& batch) {
  loss_ = task_.Loss(batch);
  at::NoGradGuard no_grad;
  sums_[kLossSum] += loss_.loss_sum;
  sums_[kWeight] += loss_.weight;
  sums_[kUnits] += loss_.units;
  if (loss_.padding.defined()) sums_[kPadding] += loss_.padding;
  if (loss_.empty.defined()) sums_[kEmpty] += loss_.empty;
  sums_[kSamples] += static_cast<double>(batch.size());
  if (loss_.hits.defined()) sums_[kHits] += loss_.hits;
}

void StepComputation::Backward(bool reduce, const std::function<void()>& computed) {
  data_parallel_->BeforeBackward(reduce);
  const at::Tensor scaled = update_.Scale(std::exchange(loss_, {}).loss_sum * FactorBeforeBackward());
  if (reduce && computed && !communicator_.is_alone()) distributed::AfterLastGradient(scaled, computed);
  scaled.backward();
}

// The loss is divided by the weight of the global batch in two parts, as Task says: before backward by the nominal
// weight, and in the update by what then remains. The reducer averages over ranks; the first factor makes that a sum.
double StepComputation::FactorBeforeBackward() const {
  return (shard_step_ ? 1.0 : static_cast<double>(communicator_.world_size())) / nominal_weight_;
}

std::optional<at::Tensor> StepComputation::FactorOfUpdate() const {
  if (!task_.weight_varies()) return std::nullopt;
  return at::where(sums_[kWeight] > 0, nominal_weight_ / sums_[kWeight], at::zeros_like(sums_[kWeight]));
}

void StepComputation::Update(const optim::Rate& learning_rate, const std::optional<at::Tensor>& skip) {
  exchange_->Keep(skip);
  update_.Apply(data_parallel_->gradients(), learning_rate, FactorOfUpdate(), skip);
}

}  // namespace dtrain::loop
