// The kernels of a language model's loss on the CPU: the functions of their threads in loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "models/kernels/cross_entropy.h"
#include "tests/models/norm_stand_in.h"

namespace dtrain::models::stand_in {

// Returns the sum over the `warp`-th 32 of these.
template <typename T>
kernels::ExpSum WarpSum(const std::vector<kernels::ExpSum>& of_threads, int warp) {
  const auto first = of_threads.begin() + static_cast<std::ptrdiff_t>(warp) * kernels::kLanes;
  kernels::ExpSum total{-INFINITY, 0};
  std::for_each_n(first, kernels::kLanes, [&](const auto& of) { total.largest = fmaxf(total.largest, of.largest); });
  std::for_each_n(first, kernels::kLanes, [&](const auto& of) { total.sum += RelativeTo<T>(total.largest, of); });
  return total;
}

inline void CrossEntropy(const kernels::CrossEntropyArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < arguments.rows; ++row) {
      if (arguments.answers[row] == arguments.ignored) {
        IgnoreRow(arguments, row);
        continue;
      }
      std::vector<kernels::ExpSum> of_threads;
      for (int thread = 0; thread < kernels::kThreadsOfLogits; ++thread) {
        of_threads.push_back(kernels::SumLogits<T>(arguments, row, thread));
      }
      kernels::ExpSum of_warps[kernels::kWarpsOfLogits];
      for (int warp = 0; warp < kernels::kWarpsOfLogits; ++warp) of_warps[warp] = WarpSum<T>(of_threads, warp);
      kernels::FinishRow<T>(arguments, row, of_warps);
    }
  });
}

inline void CrossEntropyGradient(const kernels::CrossEntropyGradientArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    for (int64_t row = 0; row < arguments.rows; ++row) {
      for (int thread = 0; thread < kernels::kThreadsOfLogits; ++thread) {
        kernels::CrossEntropyGradientThread<decltype(type)>(arguments, row, thread);
      }
    }
  });
}

}  // namespace dtrain::models::stand_in
