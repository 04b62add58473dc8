// --task=image_classification.
#include <algorithm>

#include "data/pipeline/size_schedule.h"
#include "models/registry.h"
#include "trainer/errors.h"
#include "trainer/tasks/export_images.h"
#include "trainer/tasks/image_data.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/predict_images.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/freeze.h"

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
void RequireValuesToNormalise(const config::Config& config, const config::BatchSizes& batch, const DataSets& data) {
  const int64_t size = SmallestSize(config, data);
  const bool ranks_help = config.ranks.sync_bn && batch.global_batch_size > batch.grad_accum_steps;
  const int64_t shards = config.batch.elastic_shards.value_or(0);
  const int64_t fewest = shards > 0 ? batch.global_batch_size / shards : batch.batch_size;
  if (size > kLargestStride || fewest > 1 || ranks_help) return;
  throw UsageError("--model=" + config.model.name + " cannot learn from one image of " + std::to_string(size) +
                       " pixels at a time: its last batch normalisations would see a single value of each channel",
                   std::string(shards > 0 ? "lower --elastic_shards" : "raise --batch_size") +
                       ", or let images be larger than " + std::to_string(kLargestStride) + " pixels");
}

void RequireClassesToMix(const config::ImageConfig& image, int64_t num_classes) {
  if (num_classes > 1 || (image.mixup == 0 && image.cutmix == 0)) return;
  throw UsageError(std::string(image.mixup > 0 ? "--mixup" : "--cutmix") +
                       " mixes images of different classes, but the data has only one class",
                   "leave it out, or check the folders of --data_dir");
}

class ImageClassificationKind : public TaskKind {
 public:
  const char* name() const override { return "image_classification"; }
  bool Takes(const std::string& model) const override { return !models::ReadsText(model); }
  std::string HeadName(const std::string& model) const override { return models::ClassifierName(model); }
  SampleSize SizeOf(const config::Config& config) const override { return {"image_size", config.image.size}; }

  DataSets OpenData(const config::Config& config, const data::Classes& known,
                    data::IndexParcel* parcel) const override {
    return OpenImageSets(config, known, parcel);
  }

  data::Classes ClassesOf(const config::Config& config, const TrainedWeights& weights) const override {
    data::Classes classes = weights.classes;
    if (classes.count == 0) classes.count = NumClassesFor(config, weights);
    return classes;
  }

  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override {
    auto model = MakeModel(config, sizes.num_classes, device);
    Freeze(config.model, HeadName(config.model.name), *model);
    return std::make_unique<ImageTask>(std::move(model), config, device);
  }

  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const TrainedWeights& weights,
                                          const DataSizes& /*sizes*/, at::Device device) const override {
    return std::make_unique<ImageTask>(MakeTrainedModel(config, weights, device), config, device);
  }

  void RequireLearnable(const config::Config& config, const config::BatchSizes& batch,
                        const DataSets& data) const override {
    RequireClassesToMix(config.image, data.num_classes);
    RequireValuesToNormalise(config, batch, data);
  }

  void Predict(const config::Config& config, at::Device device) const override {
    WantsTable(config) ? PredictImages(config, device) : PredictPixels(config, device);
  }

  void Export(TrainedWeights weights, const config::Config& config, bool to_file) const override {
    ExportImages(std::move(weights), config, to_file);
  }

  DataSizes BenchSizes(const config::Config& config) const override {
    constexpr int64_t kImageNetClasses = 1000;
    return {.num_classes = config.model.num_classes > 0 ? config.model.num_classes : kImageNetClasses};
  }
};

}  // namespace

const TaskKind& ImageClassification() {
  static const ImageClassificationKind kind;
  return kind;
}

}  // namespace dtrain::loop
