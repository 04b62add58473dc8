// Compares recorded and replayed steps with the same steps done one by one on the same stream: weights, optimizer and
// running statistics bit for bit, with another learning rate in each step, dropout, and a step that fp16 skips.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"
#include "trainer/distributed/algorithms.h"
#include "trainer/loop/make_parameter_update.h"
#include "trainer/loop/step_graph.h"
#include "trainer/optim/precision.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/task_seed.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kSteps = 12, kSkippedStep = 7, kShortStep = 9, kRows = 8, kSize = 64;

// Runs recorded work when it is replayed, on the stream on which a graph would be recorded.
class OneByOne : public distributed::DeviceGraph {
 public:
  explicit OneByOne(std::unique_ptr<distributed::DeviceGraph> graph) : graph_(std::move(graph)) {}
  void Run(const std::function<void()>& work) override { graph_->Run(work); }
  void Record(const std::function<void()>& work) override { recorded_ = work; }
  void Replay() override { graph_->Run(recorded_); }

 private:
  std::unique_ptr<distributed::DeviceGraph> graph_;
  std::function<void()> recorded_;
};

struct Trained {
  std::vector<at::Tensor> state;
  std::vector<float> losses;
  double skipped = 0;
};

Trained Train(const config::Config& config, at::Device gpu, bool recorded) {
  ImageTask task(MakeModel(config, /*num_classes=*/10, gpu), config, gpu);
  optim::ParameterUpdate update = MakeParameterUpdate(config, task.module(), gpu);
  auto graph = distributed::LoadCudaPlugin().make_graph(gpu);
  if (!recorded) graph = std::make_unique<OneByOne>(std::move(graph));
  StepGraph steps(std::move(graph), gpu);
  const at::Tensor loss = at::zeros({}, at::TensorOptions(gpu)), skipped = at::zeros_like(loss);
  at::manual_seed(5);
  const at::Tensor images = at::randn({kSteps, kRows, 3, kSize, kSize}), labels = at::randint(10, {kSteps, kRows});
  Trained trained;
  for (int64_t step = 0; step < kSteps; ++step) {
    data::Batch batch;
    const int64_t rows = step == kShortStep ? 3 : kRows;
    at::Tensor of_step = images[step].slice(0, 0, rows).clone();
    if (step == kSkippedStep) of_step[0][0][0][0] = std::numeric_limits<float>::infinity();
    batch.tensors["images"] = of_step.to(gpu);
    batch.tensors["labels"] = labels[step].slice(0, 0, rows).to(gpu);
    batch.tensors["index"] = at::arange(rows);
    SeedTask({.seed = 1, .step = step}, gpu);
    steps.Run(batch, 0.1 / static_cast<double>(step + 1), [&](const data::Batch& given, const at::Tensor& rate) {
      const optim::CastCacheScope casts;
      for (at::Tensor& parameter : task.module().parameters()) parameter.mutable_grad().reset();
      const LossSums sums = task.Loss(given);
      update.Scale(sums.loss_sum / sums.weight).backward();
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : task.module().parameters()) gradients.push_back(parameter.grad());
      update.Apply(gradients, rate);
      const at::NoGradGuard no_grad;
      at::Tensor(loss).copy_(sums.loss_sum);
      at::Tensor(skipped).add_(update.skipped());
    });
    trained.losses.push_back(loss.item<float>());
  }
  trained.skipped = skipped.item<double>();
  for (const auto& [name, tensor] : StateOf(task.module())) trained.state.push_back(tensor.detach().cpu());
  for (const auto& [name, tensor] : update.State()) trained.state.push_back(tensor.detach().cpu());
  return trained;
}

class CudaGraphs : public testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(CudaGraphs, RecordedStepsHaveTheSameBits) {
  const at::Device gpu = distributed::DeviceOf(launch::Launch{}, "nccl");
  distributed::ChooseAlgorithms({.deterministic = true});
  config::Config config;
  std::tie(config.model.name, config.precision.name, config.optimizer.name) = GetParam();
  config.optimizer.clip_norm = 1;
  if (config.model.name == "efficientnet_b0") config.model.drop_path = 0.2;
  const Trained wanted = Train(config, gpu, /*recorded=*/false), result = Train(config, gpu, /*recorded=*/true);
  // fp16 skips the first steps, too, until its scale is low enough.
  EXPECT_GE(wanted.skipped, 1);
  EXPECT_TRUE(config.precision.name == "fp16" || wanted.skipped == 1) << wanted.skipped;
  EXPECT_EQ(result.skipped, wanted.skipped);
  for (size_t step = 0; step < wanted.losses.size(); ++step) {
    if (step == kSkippedStep) continue;
    EXPECT_EQ(result.losses[step], wanted.losses[step]) << step;
  }
  for (size_t i = 0; i < wanted.state.size(); ++i) {
    EXPECT_TRUE(at::allclose(result.state[i], wanted.state[i], 0, 0, /*equal_nan=*/true)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaGraphs,
                         testing::Values(std::tuple{"resnet18", "fp32", "sgd"}, std::tuple{"resnet18", "fp16", "sgd"},
                                         std::tuple{"resnet18", "bf16", "adamw"},
                                         std::tuple{"efficientnet_b0", "bf16", "sgd"}));

}  // namespace
}  // namespace dtrain::loop
