#include "trainer/modes/require_learnable.h"

#include <algorithm>
#include <string>

#include "data/pipeline/size_schedule.h"
#include "models/registry.h"
#include "trainer/errors.h"

namespace dtrain::loop {
namespace {

// The last layers of all image models see 1/32 of the image's side.
constexpr int64_t kLargestStride = 32;

int64_t SmallestSize(const config::Config& config, const DataSets& data) {
  const data::RecordSource& source = *data.train->source;
  const bool is_as_stored =
      source.kind() == data::RecordKind::kPixels && (config.image.augment == "auto" || config.image.augment == "none");
  if (is_as_stored) return std::max(source.rows().height, source.rows().width);
  int64_t smallest = config.image.size;
  const data::SizeSchedule sizes = *data::ParseSizeSchedule(config.image.size_schedule);
  if (!sizes.empty()) smallest = sizes.front().size;
  for (const data::SizeChange& change : sizes) smallest = std::min(smallest, change.size);
  return smallest;
}

// Batch normalisation of a single value per channel subtracts the value itself, so nothing of the image is left.
void RequireValuesToNormalise(const config::Config& config, const Plan& plan, const DataSets& data) {
  const int64_t size = SmallestSize(config, data);
  const bool ranks_help = config.ranks.sync_bn && plan.batch.global_batch_size > plan.batch.grad_accum_steps;
  if (size > kLargestStride || plan.batch.batch_size > 1 || ranks_help) return;
  throw UsageError("--model=" + config.model.name + " cannot learn from one image of " + std::to_string(size) +
                       " pixels at a time: its last batch normalisations would see a single value of each channel",
                   "raise --batch_size, or let images be larger than " + std::to_string(kLargestStride) + " pixels");
}

void RequireClassesToMix(const config::ImageConfig& image, int64_t num_classes) {
  if (num_classes > 1 || (image.mixup == 0 && image.cutmix == 0)) return;
  throw UsageError(std::string(image.mixup > 0 ? "--mixup" : "--cutmix") +
                       " mixes images of different classes, but the data has only one class",
                   "leave it out, or check the folders of --data_dir");
}

void RequireUpdatesOfAverage(const config::OptimizerConfig& optimizer, const Plan& plan) {
  if (optimizer.ema_decay == 0 || plan.total_steps >= optimizer.ema_every) return;
  throw UsageError("--ema_decay keeps an average that would never be updated: the run has " +
                       std::to_string(plan.total_steps) + " steps, --ema_every=" + std::to_string(optimizer.ema_every),
                   "lower --ema_every, train longer, or leave out --ema_decay");
}

}  // namespace

void RequireLearnable(const config::Config& config, const Plan& plan, const DataSets& data) {
  if (config.run.stop_after_epochs_without_gain > 0 && !data.val) {
    throw UsageError("--stop_after_epochs_without_gain measures the gain on a validation split, but there is none",
                     "--val_fraction=0.1 makes one from a part of the training split");
  }
  RequireUpdatesOfAverage(config.optimizer, plan);
  if (models::IsRoberta(config.model.name)) return;
  RequireClassesToMix(config.image, data.num_classes);
  RequireValuesToNormalise(config, plan, data);
}

}  // namespace dtrain::loop
