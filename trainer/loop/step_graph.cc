// Unrecorded steps take the learning rate as a tensor, too: float32 rounds it, and the bits of a run must not depend on
// which of its steps are recorded.
#include "trainer/loop/step_graph.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <utility>

#include "trainer/device/cuda_plugin.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::loop {

StepGraph::StepGraph(std::unique_ptr<distributed::DeviceGraph> graph, at::Device device)
    : graph_(std::move(graph)),
      device_(device),
      learning_rate_(at::zeros({}, at::TensorOptions(at::kFloat).device(device))) {}

StepGraph::Shape StepGraph::ShapeOf(const data::Batch& batch) const {
  Shape shape;
  for (const auto& [name, tensor] : batch.tensors) {
    if (tensor.device() == device_) shape[name] = {tensor.sizes().vec(), tensor.scalar_type()};
  }
  return shape;
}

void StepGraph::Run(const data::Batch& batch, double learning_rate, const Step& step) {
  learning_rate_.fill_(learning_rate);
  const Shape shape = ShapeOf(batch);
  if (shape == recorded_) {
    for (const auto& [name, of_batch] : shape) inputs_.tensors[name].copy_(batch[name], /*non_blocking=*/true);
    last_ = recorded_;
    alike_ = 0;
    graph_->Replay();
    return;
  }
  alike_ = shape == last_ ? alike_ + 1 : 1;
  last_ = shape;
  if (alike_ <= kWarmUpSteps) {
    graph_->Run([&] { step(batch, learning_rate_); });
    return;
  }
  Record(batch, step);
  recorded_ = shape;
  graph_->Replay();
}

void StepGraph::Record(const data::Batch& batch, const Step& step) {
  inputs_ = batch;
  for (auto& [name, tensor] : inputs_.tensors) {
    if (tensor.device() == device_) tensor = tensor.clone();
  }
  try {
    graph_->Record([this, step] { step(inputs_, learning_rate_); });
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw UsageError(std::string("the training step cannot be recorded as a graph: ") + error.what_without_backtrace(),
                     "run it with --cuda_graphs=off");
  }
}

std::string WhyNotRecorded(const GraphConditions& conditions) {
  if (!conditions.device.is_cuda()) return "this rank computes on the CPU";
  if (conditions.exchanges)
    return "the step exchanges gradients (only the step of one rank, without NCCL, is recorded)";
  if (conditions.micro_steps > 1) return "the step has several micro-steps (--grad_accum_steps)";
  return conditions.task;
}

void RequireGraphs(const std::string& wanted, const GraphConditions& conditions) {
  const std::string why_not = WhyNotRecorded(conditions);
  if (wanted != "on" || why_not.empty()) return;
  throw UsageError("--cuda_graphs=on is not possible: " + why_not,
                   "--cuda_graphs=auto runs without graphs in this case; off is the default");
}

std::unique_ptr<StepGraph> MakeStepGraph(const std::string& wanted, const GraphConditions& conditions) {
  if (wanted == "off") return nullptr;
  RequireGraphs(wanted, conditions);
  const std::string why_not = WhyNotRecorded(conditions);
  if (!why_not.empty()) {
    report::LogInfo("--cuda_graphs=auto: no step is recorded because " + why_not);
    return nullptr;
  }
  return std::make_unique<StepGraph>(distributed::LoadCudaPlugin().make_graph(conditions.device), conditions.device);
}

}  // namespace dtrain::loop
