#include "trainer/tasks/task_seed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace dtrain::loop {
namespace {

float DrawnAfter(const TaskSeed& seed) {
  SeedTask(seed, at::kCPU);
  return at::rand({1}).item<float>();
}

TEST(SeedTask, EachPartOfTheKeyCounts) {
  const TaskSeed all[] = {{}, {.seed = 1}, {.step = 1}, {.micro_step = 1}, {.shard = 1}, {.step = 1, .shard = 1}};
  std::set<float> draws;
  for (const TaskSeed& seed : all) {
    draws.insert(DrawnAfter(seed));
    EXPECT_EQ(DrawnAfter(seed), DrawnAfter(seed));
  }
  EXPECT_EQ(draws.size(), std::size(all));
}

}  // namespace
}  // namespace dtrain::loop
