#include "trainer/loop/make_task.h"

#include "trainer/loop/image_task.h"

namespace dtrain::loop {

std::unique_ptr<Task> MakeTask(const config::Config& config, int64_t num_classes, at::Device device, int64_t shard) {
  return std::make_unique<ImageTask>(MakeModel(config, num_classes, device), config, device, shard);
}

}  // namespace dtrain::loop
