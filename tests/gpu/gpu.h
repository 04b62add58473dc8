// The GPU that tests use, and what each run on it must be.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "trainer/device/device.h"

namespace dtrain {

inline at::Device Gpu() { return device::DeviceOf(launch::Launch{}, "nccl"); }

// Runs 20 times what returns tensors, which shall have the same bits each time, though blocks end in another order.
template <typename Run>
void ExpectSameBits(const Run& run) {
  const std::vector<at::Tensor> first = run();
  for (int i = 1; i < 20; ++i) {
    const std::vector<at::Tensor> results = run();
    for (size_t k = 0; k < first.size(); ++k) EXPECT_TRUE(at::equal(results[k], first[k])) << i << " " << k;
  }
}

}  // namespace dtrain
