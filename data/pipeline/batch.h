// What the loader hands to a task: a few named tensors of equal length.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "data/pipeline/deferred_rows.h"

namespace dtrain::data {

// Host tensors (pinned where asked), contiguous, one row a sample:
//   images  as the decoder's field says: uint8 N×H×W×3, or float32 N×3×H×W that is already normalised
//   labels  int64 N, 0-based; -1 where the format has none
//           (text has other fields: data/text/token_rows.h)
//   index   int64 N, position in the RecordSource (of the replacement, where a bad record was replaced)
struct Batch {
  std::map<std::string, at::Tensor> tensors;
  int64_t number = 0;  // as the loader's provider was asked for it
  // Of a batch that was prepared (DeviceFeed): what the host alone looks at, and no device gets.
  std::map<std::string, at::Tensor> on_host = {};

  // Rows whose `images` are undefined yet; null: none are.
  std::shared_ptr<DeferredRows> deferred = nullptr;
  int64_t decoded_on_device = 0;  // of the rows

  int64_t size() const { return tensors.at("index").size(0); }
  const at::Tensor& operator[](const std::string& name) const { return tensors.at(name); }
};

}  // namespace dtrain::data
