#include "trainer/weights/module_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trainer/errors.h"

namespace dtrain::weights {
namespace {

TEST(CopyInto, FillsChannelsLastTensorsAndRefusesOthers) {
  const at::Tensor source = at::randn({4, 3, 2, 2});
  at::Tensor target = at::zeros({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  CopyInto({{"w", target}}, {{"w", source}});
  EXPECT_TRUE(at::equal(target, source));
  EXPECT_THROW(CopyInto({{"w", target}}, {{"v", source}}), StorageError);
  EXPECT_THROW(CopyInto({{"w", target}}, {{"w", at::zeros({4})}}), StorageError);
  EXPECT_THROW(CopyInto({{"w", target}}, {{"w", source.to(at::kLong)}}), StorageError);
}

}  // namespace
}  // namespace dtrain::weights
