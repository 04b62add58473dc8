#include "trainer/report/gpu_use.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace dtrain::report {
namespace {

TEST(GpuUse, OfEachGpuThatTells) {
  GpuUseReader reader(FAKE_NVML);
  EXPECT_EQ(reader.Count(), 3);
  for (int round = 0; round < 2; ++round) {
    const auto gpus = reader.Read();
    ASSERT_EQ(gpus.size(), 2U);
    EXPECT_EQ(gpus[0].index, 0);
    EXPECT_DOUBLE_EQ(gpus[0].utilization, 0.25);
    EXPECT_EQ(gpus[0].memory_used_bytes, uint64_t{1} << 30);
    EXPECT_EQ(gpus[0].memory_total_bytes, uint64_t{80} << 30);
    EXPECT_EQ(gpus[1].index, 2);
    EXPECT_DOUBLE_EQ(gpus[1].utilization, 1);
    EXPECT_EQ(gpus[1].memory_used_bytes, uint64_t{3} << 30);
  }
}

TEST(GpuUse, WithoutADriverThereAreNone) {
  EXPECT_TRUE(GpuUseReader("/no/such/library.so").Read().empty());
  EXPECT_TRUE(GpuUseReader("libm.so.6").Read().empty());  // a library without NVML's functions
  EXPECT_EQ(GpuUseReader("/no/such/library.so").Count(), std::nullopt);
  setenv("FAKE_NVML_FAILS", "1", 1);
  EXPECT_TRUE(GpuUseReader(FAKE_NVML).Read().empty());
  unsetenv("FAKE_NVML_FAILS");
}

}  // namespace
}  // namespace dtrain::report
