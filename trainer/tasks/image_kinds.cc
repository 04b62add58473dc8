#include "trainer/tasks/image_kinds.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "data/pipeline/sampler.h"
#include "data/shown.h"
#include "models/registry.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/export.h"
#include "trainer/tasks/image_task.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/module_state.h"

namespace dtrain::tasks {
namespace {

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
  const int64_t size = SmallestSize(config, data), stride = models::FamilyOf(config.model.name).norm_stride;
  const bool ranks_help = config.ranks.sync_bn && batch.global_batch_size > batch.grad_accum_steps;
  const int64_t shards = config.batch.elastic_shards.value_or(0);
  const int64_t fewest = shards > 0 ? batch.global_batch_size / shards : batch.batch_size;
  if (size > stride || fewest > 1 || ranks_help) return;
  throw UsageError("--model=" + config.model.name + " cannot learn from one image of " + std::to_string(size) +
                       " pixels at a time: its last batch normalisations would see a single value of each channel",
                   std::string(shards > 0 ? "lower --elastic_shards" : "raise --batch_size") +
                       ", or let images be larger than " + std::to_string(stride) + " pixels");
}

// --batch_size=1 is refused before; here also what follows from other sizes.
void RequireMixable(const config::ImageConfig& image, const config::BatchSizes& batch, bool has_one_class) {
  if (image.mixup == 0 && image.cutmix == 0) return;
  const std::string mixes = std::string(image.mixup > 0 ? "--mixup" : "--cutmix") + " mixes images of ";
  if (!batch.elastic && batch.batch_size == 1) {
    throw UsageError(mixes + "a batch, but each has one image",
                     "lower --grad_accum_steps, raise --global_batch_size, or leave it out");
  }
  if (!has_one_class) return;
  throw UsageError(mixes + "different classes, but the data has only one class",
                   "leave it out, or check the folders of --data_dir");
}

weights::NumberScale ScaleOf(const data::RecordSource& source) {
  std::vector<float> numbers(static_cast<size_t>(source.num_targets()));
  std::vector<double> means(numbers.size()), deviations(numbers.size());
  double seen = 0;
  for (int64_t image = 0; image < source.size(); ++image) {  // B. P. Welford (1962)
    if (!source.HasTargets(image)) continue;
    source.Targets(image, numbers);
    ++seen;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double difference = numbers[i] - means[i];
      means[i] += difference / seen;
      deviations[i] += difference * (numbers[i] - means[i]);
    }
  }
  for (double& one : deviations) one = std::sqrt(one / seen);
  return {means, deviations};
}

// Returns which number is the same in all images of a split; empty: none.
std::string SameInAll(const DataSplit& split, const weights::NumberScale& scale,
                      const std::vector<std::string>& names) {
  for (size_t column = 0; column < scale.means.size(); ++column) {
    if (scale.deviations[column] > 0) continue;
    const std::string name = column < names.size() ? Shown(names[column]) : "number " + std::to_string(column);
    return "all images of split " + split.name + " have the same " + name + ": " + config::ToText(scale.means[column]);
  }
  return "";
}

// What all images have in common teaches nothing.
void RequireDifferentNumbers(const DataSets& data) {
  if (const std::string same = SameInAll(*data.train, data.scale, data.classes.names); !same.empty()) {
    throw DataError(
        same + ", so that nothing is learned",
        "check the column of the labels (--label_column); of large numbers that differ little, which float32 "
        "does not tell apart, subtract the same number from all");
  }
  for (const DataSplit* split : ValidationSets(data)) {
    const std::string same = SameInAll(*split, ScaleOf(*split->source), data.classes.names);
    if (!same.empty()) report::LogWarning(same + ": its r2 and pearson tell nothing");
  }
}

class ImageKind : public TaskKind {
 public:
  ImageKind(const char* name, data::LabelKind labels, ImageTaskMaker make)
      : name_(name), labels_(labels), make_(make), has_numbers_(labels == data::LabelKind::kNumbers) {}

  const char* name() const override { return name_; }
  data::LabelKind labels() const override { return labels_; }
  bool Takes(const std::string& model) const override { return !models::ReadsText(model); }
  SampleSize SizeOf(const config::Config& config) const override { return {"image_size", config.image.size}; }

  DataSets OpenData(const config::Config& config, const data::Classes& known,
                    data::SharedIndexes* indexes) const override {
    DataSets sets = OpenImageSets(config, known, indexes);
    if (labels_ == data::LabelKind::kClass) return sets;
    for (const DataSplit* split : AllSplits(sets)) {
      if (split->source->num_targets() > 0) continue;
      throw UsageError(std::string("--task=") + name_ + ": split " + split->name + " has classes, or no labels at all",
                       "name a table of labels with --labels=FILE.csv");
    }
    if (has_numbers_ && sets.train) sets.scale = ScaleOf(*sets.train->source);
    return sets;
  }

  data::Classes ClassesOf(const config::Config& config, const weights::TrainedWeights& weights) const override {
    data::Classes classes = weights.classes;
    if (classes.count == 0) classes.count = weights::NumClassesFor(config, weights);
    return classes;
  }

  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override {
    auto model = MakeModel(config, sizes.num_classes, device);
    weights::Freeze(config.model, models::ClassifierName(config.model.name), *model);
    return make_(std::move(model), sizes, config, device);
  }

  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                          const DataSizes& /*sizes*/, at::Device device) const override {
    const DataSizes known = {
        .num_classes = weights::NumClassesFor(config, weights), .scale = weights.scale, .classes = weights.classes};
    weights::RequireScaleOf(known.num_classes, weights.scale);
    auto model = MakeModel(config, known.num_classes, device);
    weights::ApplyInitialWeights(weights.tensors, config.model, *model);
    return make_(std::move(model), known, config, device);
  }

  void RequireLearnable(const config::Config& config, const config::BatchSizes& batch,
                        const DataSets& data) const override {
    RequireMixable(config.image, batch, labels_ == data::LabelKind::kClass && data.num_classes <= 1);
    if (has_numbers_) RequireDifferentNumbers(data);
    const int64_t copies = config.image.repeated_augmentation;
    if (copies > 1 && config.data.shuffle == "none") {
      report::LogWarning("without shuffling, --repeated_augmentation=" + std::to_string(copies) +
                         " trains on the same first samples in each epoch");
    }
    RequireValuesToNormalise(config, batch, data);
  }

  nlohmann::json Identity(const config::Config& config, const DataSets& data) const override {
    auto identity = nlohmann::json::object();
    if (has_numbers_) identity[weights::kNumberScaleKey] = nlohmann::json::parse(weights::ToText(data.scale));
    if (!config.teacher.weights.empty()) identity["teacher"] = DescribeTeacher(config);
    return identity;
  }

  void AddMetadata(checkpoint::Metadata& metadata, const config::Config& /*config*/,
                   const DataSets& data) const override {
    if (has_numbers_) metadata[weights::kNumberScaleKey] = weights::ToText(data.scale);
  }

  void Predict(const config::Config& config, at::Device device) const override { PredictImages(config, device); }

  void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const override {
    ExportImages(std::move(weights), labels_, config, to_file);
  }

  DataSizes BenchSizes(const config::Config& config) const override {
    const int64_t otherwise = has_numbers_ ? 1 : 1000;  // the classes of ImageNet
    return {.num_classes = config.model.num_classes > 0 ? config.model.num_classes : otherwise};
  }

 private:
  const char* const name_;
  const data::LabelKind labels_;
  const ImageTaskMaker make_;
  const bool has_numbers_;
};

}  // namespace

std::unique_ptr<const TaskKind> MakeImageKind(const char* name, data::LabelKind labels, ImageTaskMaker make) {
  return std::make_unique<ImageKind>(name, labels, make);
}

const TaskKind& ImageClassification() {
  return ImageKindOf<ImageClassificationTask>("image_classification", data::LabelKind::kClass);
}

}  // namespace dtrain::tasks
