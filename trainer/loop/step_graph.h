// --cuda_graphs: the training step as one call to the device. What a step computes must depend on tensors of the device
// alone: its batch, which is copied to where the recorded step reads it, the learning rate, and what it keeps itself.
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
  // Steps of one shape in a row that are done as they come, before one is recorded: in them libraries choose their
  // algorithms and take their memory, which cannot be recorded.
  static constexpr int64_t kWarmUpSteps = 3;

  // What a step does on the device. It may be called without anything being done (DeviceGraph::Record), or not be
  // called where it is done all the same: nothing of it may hang on what the host knows of this step alone.
  using Step = std::function<void(const data::Batch& batch, const at::Tensor& learning_rate)>;

  StepGraph(std::unique_ptr<distributed::DeviceGraph> graph, at::Device device);

  // Does one step. A batch of another shape than the recorded one's (a short one, another image size) is worked on as
  // it comes, and recorded once so many of its kind have come in a row. `batch` has at least one tensor on the device.
  // Throws UsageError where the step cannot be recorded.
  void Run(const data::Batch& batch, double learning_rate, const Step& step);

 private:
  using Shape = std::map<std::string, std::pair<std::vector<int64_t>, at::ScalarType>>;
  Shape ShapeOf(const data::Batch& batch) const;
  void Record(const data::Batch& batch, const Step& step);

  std::unique_ptr<distributed::DeviceGraph> graph_;
  at::Device device_;
  at::Tensor learning_rate_;  // float32 scalar on the device
  data::Batch inputs_;        // what the recorded step reads
  Shape recorded_, last_;
  int64_t alike_ = 0;  // steps in a row of the shape `last_` that were done as they came
};

// What decides whether a run's steps can be recorded.
struct GraphConditions {
  at::Device device = at::kCPU;
  bool exchanges = false;  // gradients with other ranks, or through a process group of one
  int64_t micro_steps = 1;
  std::string task = {};  // Task::WhyNotRecorded
};

// Empty where they can.
std::string WhyNotRecorded(const GraphConditions& conditions);

// For --cuda_graphs=`wanted` (off, on or auto): throws UsageError with on where they cannot.
void RequireGraphs(const std::string& wanted, const GraphConditions& conditions);

// The same; null where steps are done as they come. With auto a reason for that is logged.
std::unique_ptr<StepGraph> MakeStepGraph(const std::string& wanted, const GraphConditions& conditions);

}  // namespace dtrain::loop
