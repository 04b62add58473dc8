// --cuda_graphs: runs a training step as one call to the device. A step's result must depend only on tensors of the
// device: the batch, which is copied to where the recorded step reads it, the learning rate, and the step's own state.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/pipeline/batch.h"
#include "trainer/device/device_graph.h"

namespace dtrain::loop {

class StepGraph {
 public:
  // The number of consecutive steps of one shape that run unrecorded before a graph is recorded: in them libraries
  // choose their algorithms and allocate their memory, which cannot be recorded.
  static constexpr int64_t kWarmUpSteps = 3;

  // The work of one training step on the device. While a graph is recorded, this function runs but the device computes
  // nothing; while the graph is replayed, the device computes but this function does not run. So it must not depend on
  // any value of the host that changes from step to step. `learning_rate` is a float32 scalar on the device.
  using Step = std::function<void(const data::Batch& batch, const at::Tensor& learning_rate)>;

  StepGraph(std::unique_ptr<distributed::DeviceGraph> graph, at::Device device);

  // Runs one step. A batch of another shape than the recorded one (a short batch, another image size) runs unrecorded;
  // after kWarmUpSteps of its shape in a row a graph of it replaces the old one. `batch` has at least one tensor on the
  // device. Throws UsageError if the step cannot be recorded.
  void Run(const data::Batch& batch, double learning_rate, const Step& step);

 private:
  using Shape = std::map<std::string, std::pair<std::vector<int64_t>, at::ScalarType>>;
  Shape ShapeOf(const data::Batch& batch) const;
  void Record(const data::Batch& batch, const Step& step);

  std::unique_ptr<distributed::DeviceGraph> graph_;
  at::Device device_;
  at::Tensor learning_rate_;  // float32 scalar on the device
  data::Batch inputs_;        // the tensors that the recorded step reads
  Shape recorded_, last_;     // of the graph (empty before the first recording), of the previous step
  int64_t alike_ = 0;         // consecutive unrecorded steps of shape `last_`
};

// The facts that decide whether a run's steps can be recorded.
struct GraphConditions {
  at::Device device = at::kCPU;
  bool exchanges = false;  // gradients go through a process group (even one of a single rank)
  int64_t micro_steps = 1;
  std::string task = {};  // Task::WhyNotRecorded
};

// Returns the reason why the steps cannot be recorded, or an empty string if they can.
std::string WhyNotRecorded(const GraphConditions& conditions);

// Throws UsageError if `wanted`, the value of --cuda_graphs (off, on or auto), is on and the steps cannot be recorded.
void RequireGraphs(const std::string& wanted, const GraphConditions& conditions);

// Throws as RequireGraphs does. Returns null if the steps run unrecorded; with auto the reason is logged.
std::unique_ptr<StepGraph> MakeStepGraph(const std::string& wanted, const GraphConditions& conditions);

}  // namespace dtrain::loop
