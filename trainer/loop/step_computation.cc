#include "trainer/loop/step_computation.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "data/random.h"
#include "models/registry.h"
#include "trainer/config/flags.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/precision.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

std::optional<optim::LossScaler> MakeLossScaler(const config::Config& config, at::Device device) {
  const config::PrecisionConfig& precision = config.precision;
  if (const auto scale = config::NumberFrom(precision.loss_scale)) {
    return optim::LossScaler({.dynamic = false, .initial = *scale}, device);
  }
  if (!optim::PrecisionNamed(precision.name).scales_loss) return std::nullopt;
  const int64_t window = precision.loss_scale_window.value_or(tasks::KindOf(config).LossScaleWindow(config));
  return optim::LossScaler({.initial = precision.loss_scale_start, .growth_interval = window}, device);
}

void Seed(at::Device device, uint64_t value) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(value);
}

}  // namespace

void SeedTask(int64_t seed, const data::StepPart& part, at::Device device) {
  data::RandomGenerator random({.seed = seed,
                                .epoch = part.micro_step,
                                .sample = part.step,
                                .repeat = part.shard,
                                .stream = data::RandomStream::kTask});
  const uint64_t value = random.Next64();
  Seed(at::kCPU, value);
  if (!device.is_cpu()) Seed(device, value);
}

optim::ParameterFacts FactsOfParameters(const config::Config& config, const torch::nn::Module& module) {
  const double decay = config.optimizer.layer_decay, backbone = config.optimizer.backbone_lr_factor;
  optim::ParameterFacts facts = {.is_never_decayed = models::FamilyOf(config.model.name).is_never_decayed};
  if (decay == 1 && backbone == 1) return facts;
  const models::Head& head = models::HeadIn(config.model.name, module);
  facts.rate_factor = [=, &head,
                       below_head = models::LayersBelowHead(config.model.name, module)](const std::string& name) {
    return std::pow(decay, static_cast<double>(below_head.at(name))) * (head.Has(name) ? 1 : backbone);
  };
  return facts;
}

optim::ParameterUpdate MakeParameterUpdate(const config::Config& config, const torch::nn::Module& module,
                                           at::Device device) {
  auto optimizer =
      optim::MakeOptimizer(config.optimizer, weights::ParametersOf(module), FactsOfParameters(config, module));
  models::HalfWeights half_weights(module, optim::PrecisionNamed(config.precision.name).products);
  optimizer->UseKernel(device::AdamKernelOn(device), half_weights);
  return optim::ParameterUpdate(std::move(optimizer), MakeLossScaler(config, device), config.optimizer.clip_norm,
                                device, std::move(half_weights));
}

std::optional<optim::WeightAverage> MakeWeightAverage(const config::OptimizerConfig& config, const Plan& plan,
                                                      const torch::nn::Module& module,
                                                      const checkpoint::Snapshot* restored) {
  const bool had_average = restored != nullptr && !restored->average.empty();
  if (config.ema_decay <= 0) {
    if (had_average) {
      report::LogWarning(
          "the checkpoint has an average of the weights, which ends here (--ema_decay=0): model_ema.safetensors stays "
          "that of an earlier step");
    }
    return std::nullopt;
  }
  optim::WeightAverage average(
      weights::StateOf(module),
      optim::WeightAverageOptions{
          .decay = plan.ema_decay, .every = config.ema_every, .start = config.ema_start, .warmup = plan.WarmupSteps()});
  if (had_average) {
    weights::CopyInto(average.tensors(), restored->average);
  } else if (restored != nullptr) {
    report::LogWarning("the checkpoint has no average of the weights: the average starts from the current weights");
  }
  return average;
}

StepComputation::StepComputation(const config::Config& config, const config::BatchSizes& sizes, tasks::Task& task,
                                 distributed::Communicator& communicator)
    : ranks_(config.ranks),
      sizes_(sizes),
      task_(task),
      communicator_(communicator),
      nominal_weight_(task.NominalWeight(sizes.global_batch_size)),
      update_(MakeParameterUpdate(config, task.module(), task.device())),
      sums_(at::zeros({kNumStepSums}, at::TensorOptions(at::kFloat).device(task.device()))) {
  if (!sizes.elastic) task.UseRanks(communicator);  // a shard must not depend on who computes the others
}

void StepComputation::Connect(StepGraph* graph, const distributed::BucketLayout& layout) {
  shard_step_.reset();
  data_parallel_.reset();
  torch::nn::Module& module = task_.module();
  module.zero_grad(/*set_to_none=*/true);
  const distributed::DataParallelOptions options{.bucket_cap_mb = ranks_.bucket_cap_mb,
                                                 .compression = ranks_.grad_compression,
                                                 .reduces = ranks_.deterministic != "elastic",
                                                 .accumulates = sizes_.grad_accum_steps > 1};
  OnTheStreamOf(graph, [&] {
    data_parallel_ =
        std::make_unique<distributed::DataParallel>(weights::ParametersOf(module), communicator_, options, layout);
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
