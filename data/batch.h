// What the loader hands to a task: a few named tensors of equal length.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace dtrain::data {

// Host tensors (pinned where asked), contiguous, one row a sample:
//   images  as the decoder's field says: uint8 N×H×W×3, or float32 N×3×H×W that is already normalised
//   labels  int64 N, 0-based; -1 where the format has none
//   index   int64 N, position in the RecordSource (of the replacement, where a bad record was replaced)
struct Batch {
  std::map<std::string, at::Tensor> tensors;
  int64_t number = 0;  // as the loader's provider was asked for it

  int64_t size() const { return tensors.at("index").size(0); }
  const at::Tensor& operator[](const std::string& name) const { return tensors.at(name); }
};

}  // namespace dtrain::data
