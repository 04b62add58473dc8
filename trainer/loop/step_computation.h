// What a training step computes on the device, in the parts that training (training_step.h) and `dtrain_bench step` put
// together: forward and backward of each micro-step, the exchange with the other ranks, and the update.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>

#include "data/pipeline/batch.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/config.h"
#include "trainer/distributed/communicator.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/step_exchange.h"
#include "trainer/loop/plan.h"
#include "trainer/loop/step_graph.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/weight_average.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// Of --layer_decay, --backbone_lr_factor and the model's family.
optim::ParameterFacts FactsOfParameters(const config::Config& config, const torch::nn::Module& module);

// Makes the update of all parameters of `module` that learn; they must already be on `device`, their final one. The
// loss is scaled with --precision=fp16, or if --loss_scale is a number. If autocast multiplies in a half type, training
// steps of the module use copies of its weights from now on, which the update writes.
optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device);

// Returns the average of the weights that `restored` holds. It starts from the current weights if `restored` is null or
// holds no average (which logs a warning). Returns empty without --ema_decay.
std::optional<optim::WeightAverage> MakeWeightAverage(const config::OptimizerConfig& config, const Plan& plan,
                                                      const torch::nn::Module& module,
                                                      const checkpoint::Snapshot* restored);

// What a step sums over its global batch. StepExchange adds these sums over the ranks.
enum StepSum { kLossSum, kWeight, kUnits, kPadding, kSamples, kEmpty, kHits, kNumStepSums };

// Seeds the random generators of torch, of the CPU and of `device`, for a part of a step: a task's own random numbers
// (dropout, stochastic depth) come from them. Called before each forward pass, so that ranks draw different numbers,
// and a resumed run draws the same as an uninterrupted one. `seed` is that of --seed. The host does not wait.
void SeedTask(int64_t seed, const data::StepPart& part, at::Device device);

// The order of calls in a step: Begin; for each micro-step Forward and Backward; Exchange; Update. With
// --deterministic=elastic: for each of this rank's shards BeginShard, Forward, Backward and EndShard; ExchangeShards;
// Update. Nothing waits for the device.
class StepComputation {
 public:
  // Everything referred to must outlive this object.
  StepComputation(const config::Config& config, const config::BatchSizes& sizes, tasks::Task& task,
                  distributed::Communicator& communicator);

  // A collective, called before the first step, and again when the weights have been replaced. `graph` may be null;
  // `layout` is that of the run that goes on, or empty.
  void Connect(StepGraph* graph, const distributed::BucketLayout& layout);

  // Zeroes gradients and sums.
  void Begin();
  // Runs the forward pass of a micro-batch, and seeds nothing (SeedTask).
  void Forward(const data::Batch& batch);
  // Runs the backward pass of what Forward has computed. `reduce`, for the last micro-step: the reducer averages the
  // gradients over ranks, and `computed` is called as AfterLastGradient says.
  void Backward(bool reduce, const std::function<void()>& computed = {});
  // Called after the last Backward: see DataParallel::AfterBackward.
  void EndBackward() { data_parallel_->AfterBackward(); }
  // A collective: the running statistics become the ranks' mean, and the sums those over the ranks.
  void Exchange() { exchange_->Run(sums_); }

  void BeginShard();
  void EndShard() { shard_step_->End(sums_); }
  void ExchangeShards() { shard_step_->Run(sums_); }

  // Updates the weights, unless a gradient is not finite or `skip` (float32 scalar on the device) is 1.
  void Update(const optim::Rate& learning_rate, const std::optional<at::Tensor>& skip = std::nullopt);

  const at::Tensor& sums() const { return sums_; }  // float32 on the device, indexed by StepSum
  optim::ParameterUpdate& update() { return update_; }
  const optim::ParameterUpdate& update() const { return update_; }
  distributed::DataParallel& data_parallel() { return *data_parallel_; }
  const distributed::DataParallel& data_parallel() const { return *data_parallel_; }

 private:
  double FactorBeforeBackward() const;
  std::optional<at::Tensor> FactorOfUpdate() const;

  const config::RanksConfig& ranks_;
  const config::BatchSizes sizes_;
  tasks::Task& task_;
  distributed::Communicator& communicator_;
  const double nominal_weight_;  // of a global batch: see Task::NominalWeight
  optim::ParameterUpdate update_;
  std::unique_ptr<distributed::DataParallel> data_parallel_;
  std::unique_ptr<distributed::StepExchange> exchange_;
  std::unique_ptr<distributed::ShardStep> shard_step_;  // of --deterministic=elastic, otherwise null
  at::Tensor sums_;
  tasks::LossSums loss_;  // of Forward
};

}  // namespace dtrain::loop
