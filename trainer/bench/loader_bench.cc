// Measures from the outside, as a trainer would: the time from the request for a batch until it is there.
#include "trainer/bench/benches.h"

#include <ATen/ATen.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>
#include <vector>

#include "data/image/prepare_images.h"
#include "data/machine/limits.h"
#include "data/pipeline/loader.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/split_batches.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::bench {
namespace {

// Adds `crop` and `flip` for images that no decoder has cropped: each image as a whole, not flipped.
void AddWholeCrop(data::Batch& batch) {
  if (batch.on_host.contains("crop")) return;
  const at::Tensor images = batch["images"];
  const bool channels_last = images.scalar_type() == at::kByte;
  const int64_t height = images.size(channels_last ? 1 : 2), width = images.size(channels_last ? 2 : 3);
  const at::Tensor crop = at::zeros({batch.size(), 4}, at::kInt);
  crop.select(1, 2).fill_(width);
  crop.select(1, 3).fill_(height);
  batch.on_host["crop"] = crop;
  batch.on_host["flip"] = at::zeros({batch.size()}, at::kByte);
}

// The processor time of all threads of this process.
double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The resident memory at the start and after each tenth of the measurement.
class MemoryCurve {
 public:
  // `done` is the part of the measurement that is done, 0 to 1.
  void Sample(double done) {
    for (; mib_.size() <= static_cast<size_t>(10 * done); mib_.push_back(ResidentMib())) {
    }
  }
  const std::vector<double>& mib() const { return mib_; }

 private:
  static double ResidentMib() {
    std::ifstream file("/proc/self/statm");
    int64_t all = 0, resident = 0;  // pages
    file >> all >> resident;
    return std::round(static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20) * 10) / 10;
  }
  std::vector<double> mib_;
};

void Dump(const std::string& path, data::Batch batch) {
  AddWholeCrop(batch);
  checkpoint::NamedTensors tensors;
  const char* wanted = batch.tensors.contains("targets") ? "targets" : "labels";
  for (const char* name : {"images", wanted, "index", "crop", "flip"}) tensors.emplace_back(name, batch[name].cpu());
  checkpoint::WriteSafetensors(path, tensors, {{kDumpedBy, "dtrain"}});
}

struct Measured {
  int64_t images = 0, batches = 0;
  double seconds = 0, processor_seconds = 0;
  std::vector<double> resident_mib;
};

Measured Measure(data::Loader& loader, const config::Config& config, const LoaderBenchOptions& options) {
  auto start = std::chrono::steady_clock::now();
  double processor_start = ProcessorSeconds();
  MemoryCurve memory;
  Measured measured;
  for (int64_t number = 0; auto batch = loader.Next(); ++number) {
    if (!batch->tensors.contains("images")) throw UsageError("this data has no images", "use a data set of images");
    if (number == 0 && !options.dump.empty()) Dump(options.dump, *batch);
    if (options.as_float) {
      data::PrepareImages((*batch)["images"],
                          {config.image.mean, config.image.std, config.model.channels_last, at::kFloat}, at::kCPU);
    }
    if (number < options.warmup) {
      start = std::chrono::steady_clock::now();
      processor_start = ProcessorSeconds();
      continue;
    }
    measured.images += batch->size();
    ++measured.batches;
    measured.seconds = report::SecondsSince(start);
    const double done = options.seconds > 0
                            ? measured.seconds / options.seconds
                            : static_cast<double>(measured.batches) / static_cast<double>(options.batches);
    memory.Sample(std::min(1.0, done));
    if (done >= 1) break;
  }
  measured.processor_seconds = ProcessorSeconds() - processor_start;
  measured.resident_mib = memory.mib();
  return measured;
}

}  // namespace

nlohmann::ordered_json BenchLoader(const config::Config& config, const LoaderBenchOptions& options) {
  report::InitializeLogging(/*rank=*/0, /*world_size=*/1, /*log_directory=*/"");
  tasks::DataSets data = tasks::KindOf(config).OpenData(config, /*known=*/{}, /*indexes=*/nullptr);
  if (config.data.cache == "ram") tasks::KeepInMemory(data, nullptr);
  const tasks::DataSplit& train = *data.train;
  const int64_t batch_size = config::ResolveBatch(config.batch, 1).batch_size;
  const auto batches = tasks::MakeTrainBatches(train, config, /*world=*/1);
  data::Quarantine quarantine(
      train.source->size(),
      {.split = train.name, .max_bad_records = config.data.max_bad_records, .strict = config.data.strict});
  data::LoaderOptions loader_options{.decode_threads = config.data.workers,
                                     .prefetch_batches = config.data.prefetch_batches,
                                     .seed = config.batch.seed};
  if (loader_options.decode_threads == 0) loader_options.decode_threads = data::AvailableCores();
  data::Loader loader(*train.source, *train.decoder,
                      batches->BatchesOf(/*shards=*/{}, /*steps=*/std::numeric_limits<int64_t>::max()), loader_options,
                      &quarantine);

  const Measured measured = Measure(loader, config, options);
  const auto images = static_cast<double>(measured.images);
  nlohmann::ordered_json result = {
      {"images_per_second", images / measured.seconds},
      {"images_per_processor_second", images / measured.processor_seconds},
      {"batch_milliseconds", 1000 * measured.seconds / static_cast<double>(measured.batches)},
      {"image_size", config.image.size},
      {"batch_size", batch_size},
      {"batches", measured.batches},
      {"seconds", measured.seconds},
      {"resident_mib", measured.resident_mib},
      {"pixels", options.as_float ? "float32" : "uint8"},
      {"workers", loader_options.decode_threads},
      {"samples", train.source->size()},
      {"bad_records", quarantine.count()}};
  result.update(DescribeMachine());
  return result;
}

}  // namespace dtrain::bench
