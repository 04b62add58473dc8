// The interface between the training loop and what is learned: image classes, masked words, or another task.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/pipeline/batch.h"
#include "models/forward_cost.h"
#include "trainer/report/points.h"

namespace dtrain::distributed {
class Communicator;
}

namespace dtrain::tasks {

// Float32 scalars on the device, for one micro-batch of one rank.
struct LossSums {
  at::Tensor loss_sum;      // differentiable
  at::Tensor weight;        // the number of terms in loss_sum: samples, or masked tokens; with class weights their sum
  at::Tensor units;         // what speeds count: images, or tokens without padding
  at::Tensor padding = {};  // for text: padding tokens computed on; otherwise undefined
  at::Tensor empty = {};    // for text: samples without a token, from which nothing is learned; otherwise undefined
  at::Tensor hits = {};     // for TrainingMetrics; undefined if the task has none
};

struct DataSplit;

// In prepared batches of tasks that gather samples: their numbers, int64 N, which are copied to the device.
inline constexpr char kPlaces[] = "places";

// What a task has computed for an evaluation batch, on the device: N outputs, one for each sample, or for each of the
// words that have labels.
struct SampleOutputs {
  at::Tensor index;       // int64 N: positions in the RecordSource, or numbers of words (data::SplitWords)
  at::Tensor outputs_NC;  // float32: logits of classes, or the value of a regression (N×1)
  at::Tensor targets;     // N: int64 labels, or float32 values
};
using OutputsObserver = std::function<void(const SampleOutputs&)>;

// The optimizer sees the gradient of the sum of `loss_sum` over the global batch, divided by the sum of `weight` over
// it, so that micro-steps and ranks of unequal weight contribute in proportion. The sum of weights is known only after
// the ranks have exchanged it. So backward divides by a nominal weight, and the update multiplies the gradients by
// nominal weight ÷ sum of weights.
class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& module() = 0;
  virtual at::Device device() const = 0;
  // Returns a further model, which does not learn and is no part of checkpoints; null if there is none.
  virtual torch::nn::Module* teacher() const { return nullptr; }

  // Called on the host, before a batch is copied to the device, on pinned memory if the batch is. Loss and
  // EvaluationSums take the batch that this returns.
  data::Batch Prepared(data::Batch batch) const {
    const at::Tensor index = batch["index"];
    const bool is_pinned = std::ranges::any_of(batch.tensors, [](const auto& item) { return item.second.is_pinned(); });
    data::Batch prepared = PreparedTensors(std::move(batch));
    if (gathers_samples()) prepared.tensors[kPlaces] = index;
    for (auto& [name, tensor] : prepared.tensors) tensor = is_pinned ? tensor.pin_memory() : tensor;
    return prepared;
  }

  // Runs the forward pass and the criterion on one training micro-batch. Random draws come from torch's generators,
  // which the loop seeds before every call (loop::SeedTask).
  virtual LossSums Loss(const data::Batch& batch) = 0;

  // The expected weight of a global batch of `samples` samples.
  virtual double NominalWeight(int64_t samples) const = 0;
  // Whether a batch may have another weight. If not, the update need not multiply the gradients.
  virtual bool weight_varies() const = 0;
  virtual report::SpeedUnit speed_unit() const = 0;
  // Whether the loss is that of a token, so that e to its power is a perplexity.
  virtual bool has_perplexity() const { return false; }

  // For a training loss that compares the samples of all ranks: called at most once, before the first Loss, unless the
  // run is elastic. Loss and its backward pass may then be collectives of `communicator`, which outlives them.
  virtual void UseRanks(distributed::Communicator& /*communicator*/) {}

  // Gives each class a weight in the training loss, float32 on the device; of several labels to the samples that have
  // the label. Called at most once, before the first Loss. No effect on tasks without classes.
  virtual void UseClassWeights(const at::Tensor& /*weights_C*/) {}

  // Returns metrics of training samples, from the sums of LossSums::hits and LossSums::weight over some steps.
  virtual report::Metrics TrainingMetrics(double /*hits*/, double /*weight*/) const { return {}; }

  // Returns the reason why a step graph cannot record Loss and replay it for other batches of the same shape: the host
  // decides something in it (step_graph.h). Returns an empty string if it can.
  virtual std::string WhyNotRecorded() const = 0;

  // The cost of the largest sample that training sees.
  virtual models::ForwardCost CostOfSample() const = 0;
  // Returns random samples of that size on the device, for benchmarks.
  virtual data::Batch RandomBatch(int64_t samples) const = 0;

  // Returns the samples of a prepared training batch as Loss sees them, as one picture for people to look at, or one
  // without pixels if samples are not images. Waits for the device.
  virtual report::Picture PictureOf(const data::Batch& /*batch*/) const { return {}; }

  // Called before the batches of an evaluation of `split`, which stays valid until its metrics have been asked for.
  virtual void BeginEvaluation(const DataSplit& /*split*/) {}
  // Evaluates one batch and adds it to num_evaluation_sums() sums, float64 on the device and 0 at first, which are then
  // added over ranks and given to MetricsOf. The last sum counts the units.
  virtual void AddEvaluationSums(const data::Batch& batch, at::Tensor sums) = 0;
  virtual int64_t num_evaluation_sums() const = 0;
  // Returns the sums of one batch alone.
  at::Tensor EvaluationSums(const data::Batch& batch) {
    at::Tensor sums = at::zeros({num_evaluation_sums()}, at::TensorOptions(at::kDouble).device(device()));
    AddEvaluationSums(batch, sums);
    return sums;
  }
  // From now on evaluations also count which class is taken for which. No effect on tasks without classes.
  virtual void CountConfusions() {}
  // From now on evaluations give the outputs of every batch to `observer`. Returns false if the task has no output for
  // each sample or word.
  virtual bool ObserveOutputs(OutputsObserver /*observer*/) { return false; }
  // `sums` is on the host.
  virtual report::Metrics MetricsOf(const at::Tensor& sums) const = 0;
  // The name of the metric that decides which weights are the best, unless --best_metric says otherwise; empty: the
  // first one.
  virtual std::string best_metric() const { return ""; }
  // For text: fills in the counts that only the task knows. `sums` is on the host.
  virtual void AddCounts(const at::Tensor& /*sums*/, report::TextCounts& /*counts*/) const {}
  // Returns ValPoint::confusions; empty if they are not counted. `sums` is on the host.
  virtual std::vector<int64_t> ConfusionsOf(const at::Tensor& /*sums*/) const { return {}; }
  // Returns ValPoint::scores; empty if the confusions tell them. `sums` is on the host.
  virtual std::vector<report::ClassScores> ScoresOf(const at::Tensor& /*sums*/) const { return {}; }

 protected:
  // Computes the numbers for which Loss and EvaluationSums would otherwise wait for the device.
  virtual data::Batch PreparedTensors(data::Batch batch) const { return batch; }
  // Whether prepared batches have kPlaces, for SamplePlaces.
  virtual bool gathers_samples() const { return false; }
};

}  // namespace dtrain::tasks
