#include "trainer/loop/step_graph.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "trainer/device/cuda_plugin.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::loop {

void StepGraph::Run(const data::Batch& batch, const Step& step) {
  ++step_;
  if (!has_given_up_) {
    LeaveMemoryTo(batch);
    Variant& variant = VariantOf(batch);
    if (!variant.replay && variant.unrecorded_steps >= kWarmUpSteps && MakePlaceFor(variant)) {
      RecordOrGiveUp(variant, batch, step);
    }
    replayed_ = !has_given_up_ && variant.replay;
    if (replayed_) return Replay(variant, batch);
    if (!has_given_up_) ++variant.unrecorded_steps;
  }
  graphs_->Run([&] { step(batch); });
}

StepGraph::Shape StepGraph::ShapeOf(const data::Batch& batch) {
  Shape shape{.samples = batch.size()};
  for (const auto& [name, tensor] : batch.tensors) {
    shape.tensors[name] = {tensor.sizes().vec(), tensor.scalar_type()};
  }
  return shape;
}

StepGraph::Variant& StepGraph::VariantOf(const data::Batch& batch) {
  Shape shape = ShapeOf(batch);
  const data::StepPart& part = batch.part;
  auto found = std::ranges::find_if(variants_, [&](const Variant& v) {
    return v.part.first() == part.first() && v.part.last() == part.last() && v.shape == shape;
  });
  if (found == variants_.end()) {
    if (variants_.size() >= kMostShapes) variants_.pop_back();
    variants_.push_front({.shape = std::move(shape), .part = part});
    found = variants_.begin();
  }
  variants_.splice(variants_.begin(), variants_, found);
  found->frequency += 1;
  if (step_ % kHalfLife == 0) {
    for (Variant& variant : variants_) variant.frequency /= 2;
  }
  return *found;
}

// A batch larger than all before may need the memory that graphs hold. They are recorded again when their shapes come
// again, if there is still room.
void StepGraph::LeaveMemoryTo(const data::Batch& batch) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : batch.tensors) bytes += tensor.nbytes();
  if (bytes <= largest_batch_) return;
  largest_batch_ = bytes;
  most_graphs_ = kMostGraphs;
  for (Variant& variant : variants_) {
    variant.replay = {};
    variant.inputs = {};
  }
}

int64_t StepGraph::CountGraphs() const {
  return std::ranges::count_if(variants_, [](const Variant& v) { return v.replay != nullptr; });
}

// Makes place for one more graph. Returns false if there is none. Memory is asked for once it may be short: that waits.
bool StepGraph::MakePlaceFor(const Variant& newcomer) {
  const int64_t count = CountGraphs();
  if (count == 0) return true;
  if (count < most_graphs_ && graphs_->HasRoom()) return true;
  most_graphs_ = count;
  Variant* rarest = nullptr;
  for (Variant& variant : variants_) {
    if (variant.replay && (rarest == nullptr || variant.frequency <= rarest->frequency)) rarest = &variant;
  }
  if (newcomer.frequency < kMoreFrequent * rarest->frequency) return false;
  rarest->replay = {};
  rarest->inputs = {};
  return true;
}

void StepGraph::Record(Variant& variant, const data::Batch& batch, const Step& step) {
  data::Batch inputs = batch;
  for (auto& [name, tensor] : inputs.tensors) tensor = tensor.clone();
  variant.replay = graphs_->Record([inputs, step] { step(inputs); });
  variant.inputs = std::move(inputs);
}

void StepGraph::RecordOrGiveUp(Variant& variant, const data::Batch& batch, const Step& step) {
  // All graphs share the memory that was free before the first. One that takes another's place needs no more.
  if (!required_ && most_graphs_ == kMostGraphs && CountGraphs() == 0 && !graphs_->HasRoom()) {
    report::LogInfo(
        "--cuda_graphs=auto: steps run without a graph from now on, since the GPU's memory would not hold "
        "an unrecorded step (a short batch, an evaluation) beside it");
    return GiveUp();
  }
  std::string why_not;
  try {
    return Record(variant, batch, step);
  } catch (const c10::OutOfMemoryError& error) {
    if (CountGraphs() > 0) {  // these stay
      most_graphs_ = CountGraphs();
      return;
    }
    if (required_) throw;
    why_not = error.what_without_backtrace();
  } catch (const c10::Error& error) {
    why_not = error.what_without_backtrace();
  }
  if (required_) {
    throw UsageError("the training step cannot be recorded as a graph: " + why_not, "run it with --cuda_graphs=off");
  }
  report::LogWarning("--cuda_graphs=auto: steps run without a graph from now on, since recording one failed: " +
                     why_not);
  GiveUp();
}

void StepGraph::GiveUp() {
  has_given_up_ = true;
  Forget();
}

void StepGraph::Replay(Variant& variant, const data::Batch& batch) {
  for (auto& [name, tensor] : variant.inputs.tensors) tensor.copy_(batch[name], /*non_blocking=*/true);
  variant.replay();
}

void OnTheStreamOf(StepGraph* graph, const device::DeviceGraphs::Work& work) {
  if (graph != nullptr) return graph->graphs_->Run(work);
  work();
}

std::string WhyNotRecorded(at::Device device, bool elastic, const std::string& task) {
  if (!device.is_cuda()) return "this rank computes on the CPU";
  return elastic ? "the step has shards (--deterministic=elastic)" : task;
}

void RequireGraphs(const std::string& wanted, const std::string& why_not) {
  if (wanted != "on" || why_not.empty()) return;
  throw UsageError("--cuda_graphs=on is not possible: " + why_not,
                   "--cuda_graphs=auto, the default, runs without graphs in this case");
}

std::string DescribeGraphs(const std::string& wanted, const std::string& why_not) {
  if (wanted != "auto") return wanted;
  return why_not.empty() ? "auto: yes" : "auto: no, because " + why_not;
}

std::unique_ptr<StepGraph> MakeStepGraph(const std::string& wanted, at::Device device, const std::string& why_not) {
  if (wanted == "off") return nullptr;
  RequireGraphs(wanted, why_not);
  if (why_not.empty()) {
    return std::make_unique<StepGraph>(device::LoadCudaPlugin().make_graphs(device), /*required=*/wanted == "on");
  }
  if (device.is_cuda()) report::LogInfo("--cuda_graphs=auto: no step is recorded because " + why_not);
  return nullptr;
}

}  // namespace dtrain::loop
