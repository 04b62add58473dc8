#include "trainer/loop/step_computation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace dtrain::loop {
namespace {

float DrawnAfter(int64_t seed, const data::StepPart& part) {
  SeedTask(seed, part, at::kCPU);
  return at::rand({1}).item<float>();
}

TEST(SeedTask, EachPartOfTheKeyCounts) {
  const data::StepPart all[] = {{}, {.step = 1}, {.micro_step = 1}, {.shard = 1}, {.step = 1, .shard = 1}};
  std::set<float> draws = {DrawnAfter(/*seed=*/1, {})};
  for (const data::StepPart& part : all) {
    draws.insert(DrawnAfter(0, part));
    EXPECT_EQ(DrawnAfter(0, part), DrawnAfter(0, part));
  }
  EXPECT_EQ(draws.size(), 1 + std::size(all));
}

}  // namespace
}  // namespace dtrain::loop
