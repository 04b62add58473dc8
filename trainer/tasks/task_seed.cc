#include "trainer/tasks/task_seed.h"

#include <ATen/Context.h>

#include <mutex>

#include "data/random.h"

namespace dtrain::tasks {
namespace {

void Seed(at::Device device, uint64_t value) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(value);
}

}  // namespace

void SeedTask(int64_t seed, const data::StepPart& part, at::Device device) {
  data::RandomGenerator random({.seed = seed,
                                .epoch = part.micro_step,
                                .sample = part.step,
                                .repeat = part.shard,
                                .stream = data::RandomStream::kTask});
  const uint64_t value = random.Next64();
  Seed(at::kCPU, value);
  if (!device.is_cpu()) Seed(device, value);
}

}  // namespace dtrain::tasks
