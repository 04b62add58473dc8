// How many samples each class has: warnings of classes that cannot be learned or measured, and weights that make up for
// unequal classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

// Logs the smallest and the largest class if one has twice as many training samples as the other, and warns of classes
// without training samples, of a single one, and without validation samples, and if there is one class only. Says
// nothing of sets without labels.
void SayClassBalance(const DataSets& sets);

// Returns the weight of each class in the loss as --class_weights says:
//   none       an empty vector
//   inverse    1 / samples
//   sqrt       1 / √samples
//   effective  (1 - β) / (1 - β^samples), β = 0.999: the effective number of samples (Cui et al., arXiv:1901.05555)
//   FILE       a line for each class: "NAME,WEIGHT" in any order, or "WEIGHT" in the order of the labels
// Those that follow from the samples are scaled to a mean of 1 over the training samples, and classes without a sample
// have 0. Throws UsageError if the file does not have one weight, 0 or more, for each class.
std::vector<double> ClassWeights(const std::string& choice, const std::vector<int64_t>& counts,
                                 const std::vector<std::string>& names);

// The same for several labels: the weight of the `samples` that have the label, relative to those that have not, as the
// pos_weight of torch's BCEWithLogitsLoss. Of a file they are its weights, else the quotient of the weights above of
// both: inverse is (samples without the label) / (samples with it). Labels that all samples or none have have 1.
std::vector<double> LabelWeights(const std::string& choice, const std::vector<int64_t>& counts, int64_t samples,
                                 const std::vector<std::string>& names);

// Either of them for the training split of `sets`.
std::vector<double> ClassWeights(const std::string& choice, const DataSets& sets);

}  // namespace dtrain::tasks
