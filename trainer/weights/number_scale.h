// The scale on which a model predicts numbers (--task=image_regression). It belongs to the weights: it is stored in
// every checkpoint and in the metadata of every file of them, so that nobody needs the training data to use them.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace dtrain::weights {

// The means and standard deviations of the numbers in the training split. An output of the model is
// (number - mean) / deviation. Empty: it is the number itself.
struct NumberScale {
  std::vector<double> means = {}, deviations = {};
  bool operator==(const NumberScale&) const = default;
};

// Its key in metadata and in state.json, with JSON as a text.
inline constexpr char kNumberScaleKey[] = "number_scale";

std::string ToText(const NumberScale& scale);
// Returns the scale that is stored with weights, or an empty one. Throws StorageError naming `where` if it is damaged.
NumberScale ScaleFrom(const checkpoint::Metadata& metadata, const std::string& where);

// Throws StorageError unless the scale is of so many numbers, or empty.
void RequireScaleOf(int64_t outputs, const NumberScale& scale);

// Lets weights that predict numbers on the scale `from` predict them on the scale `to`: changes the layers of the
// module `head`.
void ChangeScale(const NumberScale& from, const NumberScale& to, const std::string& head,
                 checkpoint::NamedTensors& weights);

}  // namespace dtrain::weights
