// What an evaluation found for each sample of a split, gathered from all ranks: --predictions. The ranks add up a table
// with a row for each sample, of which each has filled in its own, so that no rank writes a file of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/communicator.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"

namespace dtrain::tasks {

class SampleResults {
 public:
  // Samples of up to ten classes keep the probabilities of all, of more classes the five largest ones. `classes` is 0
  // for a regression.
  SampleResults(int64_t samples, int64_t classes, at::Device device);

  // Notes the results of a batch; called by the task that is evaluated (Task::ObserveOutputs).
  void Add(const SampleOutputs& outputs);

  // A collective. After it each rank has the results of all.
  void Gather(distributed::Communicator& communicator);

  // Writes the samples that were evaluated as `path`.csv or .jsonl, in the order of the split (predictions.h). Throws
  // StorageError.
  void Write(const std::string& path, const DataSplit& split, const std::vector<std::string>& names,
             bool byte_order_mark) const;

 private:
  int64_t guesses_;   // of each sample; 0 for a regression
  at::Tensor table_;  // float64, samples × (evaluated, target, loss, then class and probability, or the value)
};

}  // namespace dtrain::tasks
