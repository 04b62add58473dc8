// The same calls as a training step of one rank (trainer.cc), without what surrounds them.
#include "trainer/loop/step_bench.h"

#include <ATen/ATen.h>

#include <chrono>

#include "data/batch.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/distributed/communicator.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/device.h"
#include "trainer/loop/image_task.h"
#include "trainer/loop/machine.h"
#include "trainer/loop/make_parameter_update.h"
#include "trainer/loop/training_state.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kDefaultClasses = 1000;
constexpr double kMiB = 1024.0 * 1024.0;
// Multiply and add are two operations, and the backward pass does twice the work of the forward pass.
constexpr double kFlopsPerMultiplyAdd = 2.0 * 3.0;

data::Batch RandomBatch(const config::Config& config, int64_t batch_size, int64_t num_classes, at::Device device) {
  const int64_t size = config.image.size;
  data::Batch batch;
  batch.tensors["images"] = at::randint(256, {batch_size, size, size, 3}, at::TensorOptions(at::kByte)).to(device);
  batch.tensors["labels"] = at::randint(num_classes, {batch_size}, at::TensorOptions(at::kLong)).to(device);
  batch.tensors["index"] = at::arange(batch_size);
  return batch;
}

}  // namespace

nlohmann::ordered_json BenchStep(const config::Config& config, const StepBenchOptions& options) {
  const launch::Launch alone;
  const at::Device device = distributed::DeviceOf(alone, config.ranks.backend);
  const int64_t batch_size = config::ResolveBatch(config.batch, 1).batch_size;
  const int64_t num_classes = config.model.num_classes > 0 ? config.model.num_classes : kDefaultClasses;
  const auto model = MakeModel(config, num_classes, device);
  ImageTask task(model, config, device);
  optim::ParameterUpdate update = MakeParameterUpdate(config, *model, device);
  distributed::Communicator communicator;  // of one rank
  distributed::DataParallel data_parallel(ParametersOf(*model), communicator, config.ranks.bucket_cap_mb, {});
  const data::Batch batch = RandomBatch(config, batch_size, num_classes, device);

  at::Tensor loss;
  const auto step = [&] {
    data_parallel.ZeroGradients();
    loss = task.Loss(batch).loss_sum / static_cast<double>(batch_size);
    update.Scale(loss).backward();
    update.Apply(data_parallel.gradients(), config.optimizer.lr);
  };
  for (int64_t i = 0; i < options.warmup; ++i) step();
  if (loss.defined()) loss.item();  // waits for the device
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < options.steps; ++i) step();
  const double last_loss = loss.item<double>();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
                         static_cast<double>(options.steps);

  const auto images = static_cast<double>(batch_size);
  const double flops =
      kFlopsPerMultiplyAdd * static_cast<double>(model->Cost(config.image.size).multiply_adds) * images;
  nlohmann::ordered_json result = {
      {"model", config.model.name},
      {"image_size", config.image.size},
      {"batch_size", batch_size},
      {"precision", config.precision.name},
      {"channels_last", config.model.channels_last},
      {"steps", options.steps},
      {"images_per_second", images / seconds},
      {"step_milliseconds", seconds * 1000},
      {"peak_memory_mib", static_cast<double>(distributed::PeakMemoryBytes(device)) / kMiB},
      {"achieved_tflops", flops / seconds / 1e12},
      {"loss", last_loss},
      {"device", device.str()}};
  result.update(DescribeMachine());
  return result;
}

}  // namespace dtrain::loop
