// What an evaluation found for each sample of a split, or each word that has a label, gathered from all ranks:
// --predictions. The ranks add up a table with a row for each, of which each has filled in its own, so that no rank
// writes a file of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/communicator.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/predictions.h"
#include "trainer/tasks/task.h"

namespace dtrain::tasks {

// How files of them are known again.
inline const std::vector<data::Mark> kSampleMarks = {{"file,", ",label,prediction,loss"}, {"{\"file\":", "\"loss\":"}};

class SampleResults {
 public:
  // `rows` is the number of samples, or of words with labels. Of up to ten classes, of several labels and of
  // numbers all are kept, of more classes the five likeliest ones.
  SampleResults(int64_t rows, const Outcome& outcome, at::Device device);

  // Notes the results of a batch; called by the task that is evaluated (Task::ObserveOutputs).
  void Add(const SampleOutputs& outputs);

  // A collective. After it each rank has the results of all.
  void Gather(distributed::Communicator& communicator);

  // Writes the samples that were evaluated, in the order of the split, as CSV: file,[text,[pair,]]label,prediction,
  // loss,class_1,probability_1,…, the likeliest class first, or with several labels or numbers probability_NAME or
  // prediction_NAME for each. Or as JSON lines: {"file": …, "text": …, "pair": …, "label": "cat", "prediction": "dog",
  // "loss": 2.1, "probabilities": {"dog": 0.9, …}}. A single number has numbers as label and prediction, and nothing
  // else. A file is a path, with " at byte N" in a shard; words have columns `sentence` and `word`. Classes without a
  // name are numbers. Throws StorageError.
  void Write(const std::string& path, const DataSplit& split, const std::vector<std::string>& names,
             bool byte_order_mark) const;

 private:
  const Outcome outcome_;
  int64_t guesses_;  // of each sample
  // float64, samples or words × (evaluated, class, loss, then class and probability of each guess; of several classes
  // or of numbers what it should be, 1 or 0 or a number, and the probability or the number that is predicted)
  at::Tensor table_;
};

}  // namespace dtrain::tasks
