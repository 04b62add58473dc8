// --cuda_graphs: runs a training step as one call to the device. A step's result must depend only on tensors of the
// device: the batch, which is copied to where the recorded step reads it, and the step's own state, with its rate.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/pipeline/batch.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain::loop {

class StepGraph {
 public:
  // The number of steps of one shape that run unrecorded before a graph of it is recorded: in them libraries choose
  // their algorithms and allocate their memory, which cannot be recorded.
  static constexpr int64_t kWarmUpSteps = 3;
  // The number of graphs, which are of different shapes or of different work, that are kept at once.
  static constexpr int64_t kMostGraphs = 96;
  // The number of shapes whose steps are counted.
  static constexpr size_t kMostShapes = 256;
  // When all graphs are in use, or the memory is, a shape takes the place of the rarest if it has come this many times
  // as often. A recording costs many steps, and shapes that are about as frequent would replace each other for ever.
  static constexpr double kMoreFrequent = 1.5;
  // The number of steps after which what came before counts half.
  static constexpr int64_t kHalfLife = 1000;

  // The work of one training step, or of one of its micro-steps, on the device. While a graph is recorded, this
  // function runs but the device computes nothing; while the graph is replayed, the device computes but this function
  // does not run. So it must not depend on any value of the host that changes from step to step.
  using Step = std::function<void(const data::Batch& batch)>;

  // `required`: Run throws if the step cannot be recorded. Otherwise, and if another step would not fit into the memory
  // beside the first graph, it logs why, and all further steps run unrecorded.
  StepGraph(std::unique_ptr<device::DeviceGraphs> graphs, bool required)
      : graphs_(std::move(graphs)), required_(required) {}

  // Runs one step or micro-step. Replays the graph of the batch's shape if there is one of a micro-step that does the
  // same work: the first one, the last one, both, or neither. The batch's `tensors` are on the device. If
  // `required`, throws UsageError if the step cannot be recorded, and c10::OutOfMemoryError if not even one can be.
  void Run(const data::Batch& batch, const Step& step);

  // Drops all graphs, for steps that do other work from now on.
  void Forget() { variants_.clear(); }

  // Whether the last step or micro-step was replayed.
  bool replayed() const { return replayed_; }

 private:
  // The sizes and type of each tensor on the device, and the number of samples, which a recorded step may have used.
  struct Shape {
    std::map<std::string, std::pair<std::vector<int64_t>, at::ScalarType>> tensors = {};
    int64_t samples = 0;
    bool operator==(const Shape&) const = default;
  };
  struct Variant {
    Shape shape;
    data::StepPart part;
    int64_t unrecorded_steps = 0;
    double frequency = 0;
    data::Batch inputs = {};                 // the tensors that the recorded step reads
    device::DeviceGraphs::Work replay = {};  // empty: not recorded
  };

  static Shape ShapeOf(const data::Batch& batch);
  Variant& VariantOf(const data::Batch& batch);
  void LeaveMemoryTo(const data::Batch& batch);
  int64_t CountGraphs() const;
  bool MakePlaceFor(const Variant& newcomer);
  void Record(Variant& variant, const data::Batch& batch, const Step& step);
  void RecordOrGiveUp(Variant& variant, const data::Batch& batch, const Step& step);
  void GiveUp();
  friend void OnTheStreamOf(StepGraph*, const device::DeviceGraphs::Work&);
  void Replay(Variant& variant, const data::Batch& batch);

  std::unique_ptr<device::DeviceGraphs> graphs_;
  bool required_;
  bool has_given_up_ = false;
  bool replayed_ = false;
  size_t largest_batch_ = 0;  // bytes on the device
  int64_t step_ = 0;          // steps of this object
  int64_t most_graphs_ = kMostGraphs;
  std::list<Variant> variants_;  // the most recently used one first; destroyed before graphs_
};

// Calls `work` on the stream of the graph's steps, if there is a graph. A reducer must be made there: autograd waits
// for the stream on which its nodes were made, and a recorded step may wait for no other.
void OnTheStreamOf(StepGraph* graph, const device::DeviceGraphs::Work& work);

// Returns the reason why steps on `device` cannot be recorded, or an empty string if they can. `elastic`: see
// --deterministic; `task` is Task::WhyNotRecorded.
std::string WhyNotRecorded(at::Device device, bool elastic, const std::string& task);

// Throws UsageError if `wanted`, the value of --cuda_graphs (off, on or auto), is on and there is such a reason.
void RequireGraphs(const std::string& wanted, const std::string& why_not);

// Returns `wanted` and, if it is auto, what that means: "auto: yes", or "auto: no, because…".
std::string DescribeGraphs(const std::string& wanted, const std::string& why_not);

// Throws as RequireGraphs does. Returns null if the steps run unrecorded; with auto and on a GPU the reason is logged.
std::unique_ptr<StepGraph> MakeStepGraph(const std::string& wanted, at::Device device, const std::string& why_not);

}  // namespace dtrain::loop
