// The one order of a sample's classes, for metrics and for the files of predictions: by their logits, and of equal ones
// the first. Probabilities are of no use for it, as different logits may round to the same one.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <tuple>

namespace dtrain::tasks {

// Returns the first `count` classes of each row of logits, int64 N×count.
inline at::Tensor LikeliestClasses(const at::Tensor& logits_NC, int64_t count) {
  return std::get<1>(logits_NC.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true)).slice(1, 0, count);
}

}  // namespace dtrain::tasks
