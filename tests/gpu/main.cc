// Without a GPU, reports that the tests are skipped and exits with 77, which does not count as success.
#include <gtest/gtest.h>

#include <cstdio>

#include "trainer/device/cuda_plugin.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (dtrain::device::CountGpus() == 0) {
    std::puts("skipped: no GPU (or no libdtrain_cuda.so)");
    return 77;
  }
  dtrain::device::LoadCudaPlugin();  // before any call into CUDA
  return RUN_ALL_TESTS();
}
