// A format is a pair of functions here, find and open; everything behind them is the same for all.
#include "trainer/loop/data_sets.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "data/error.h"
#include "data/formats/image_folder.h"
#include "data/formats/synthetic.h"
#include "data/formats/tensor_file.h"
#include "data/image/image_decoder.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kImageNetTrainSamples = 1'281'167;
constexpr int64_t kImageNetClasses = 1000;

enum class Role { kTrain, kVal };

data::PhotometricOptions PhotometricOf(const config::ImageConfig& image) {
  data::PhotometricOptions options{
      .pca_lighting = image.pca_lighting, .blur = image.blur, .random_erasing = image.random_erasing};
  const std::vector<double>& jitter = image.color_jitter;
  for (size_t i = 0; i < 3; ++i) options.color_jitter[i] = jitter[jitter.size() == 1 ? 0 : i];
  if (jitter.size() == 4) options.color_jitter[3] = jitter[3];
  for (size_t c = 0; c < 3; ++c) {
    options.erased[c] = static_cast<uint8_t>(std::lround(255 * std::clamp(image.mean[c], 0.0, 1.0)));
  }
  return options;
}

data::ImageDecoderOptions DecoderOptions(const config::Config& config, data::Augment augment) {
  return {.image_size = config.image.size,
          .eval_resize = config.image.eval_resize,
          .interpolation = data::InterpolationFromName(config.image.interpolation),
          .augment = augment,
          .photometric = PhotometricOf(config.image),
          .seed = config.batch.seed};
}

// --augment, for training only; `by_default` is what `auto` means for this format.
data::Augment AugmentOf(const config::Config& config, Role role, data::Augment by_default) {
  if (role == Role::kVal) return data::Augment::kNone;
  return config.image.augment == "auto" ? by_default : data::AugmentFromName(config.image.augment);
}

DataSplit OpenImageFolder(const config::Config& config, Role role, const std::string& split) {
  const auto augment = AugmentOf(config, role, data::Augment::kBasic);
  return {split, std::make_unique<data::ImageFolder>(data::RequireSplit(config.data.dir, split)),
          std::make_unique<data::ImageDecoder>(DecoderOptions(config, augment))};
}

// Whether labels count from 0 or from 1 is recognised in the training split: a small validation split may lack classes.
std::optional<int64_t> LabelOffsetOf(const std::optional<DataSplit>& train) {
  const auto* file = train ? dynamic_cast<const data::TensorFile*>(train->source.get()) : nullptr;
  return file != nullptr ? std::optional(file->label_offset()) : std::nullopt;
}

DataSplit OpenTensorFile(const config::Config& config, Role role, const std::string& split,
                         const std::optional<int64_t>& label_offset) {
  auto file = std::make_unique<data::TensorFile>(data::RequireTensorFile(config.data.dir, split), label_offset);
  const auto augment = AugmentOf(config, role, data::Augment::kNone);
  std::unique_ptr<data::SampleDecoder> decoder;
  if (augment == data::Augment::kNone) {
    decoder = std::make_unique<data::RawRowDecoder>(file->rows());
  } else {
    decoder = std::make_unique<data::ImageDecoder>(DecoderOptions(config, augment), file->rows());
  }
  return {split, std::move(file), std::move(decoder)};
}

DataSplit OpenSynthetic(const config::Config& config) {
  const int64_t classes = config.model.num_classes > 0 ? config.model.num_classes : kImageNetClasses;
  auto source = std::make_unique<data::Synthetic>(kImageNetTrainSamples, classes, config.image.size, config.image.size,
                                                  config.batch.seed);
  auto decoder = std::make_unique<data::RawRowDecoder>(source->rows());
  return {"synthetic", std::move(source), std::move(decoder)};
}

std::string DetectFormat(const config::DataConfig& data) {
  if (data.format != "auto") return data.format;
  const bool tensors = std::filesystem::is_regular_file(data.dir) || data::FindTensorFile(data.dir, data.train_split) ||
                       data::FindTensorFile(data.dir, data.val_split);
  return tensors ? "safetensors" : "imagefolder";
}

DataSplit Open(const std::string& format, const config::Config& config, Role role, const std::string& split,
               const std::optional<DataSplit>& train = std::nullopt) {
  return format == "safetensors" ? OpenTensorFile(config, role, split, LabelOffsetOf(train))
                                 : OpenImageFolder(config, role, split);
}

bool Exists(const std::string& format, const std::string& dir, const std::string& split) {
  return format == "safetensors" ? data::FindTensorFile(dir, split).has_value()
                                 : data::FindSplit(dir, split).has_value();
}

std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > kShown ? text + ", … (" + std::to_string(names.size()) + ")" : text;
}

// A class is a label by its place in the sorted list: with different lists the same label would mean different things.
void RequireSameClasses(const DataSets& sets) {
  const auto &train = sets.train->source->class_names(), &val = sets.val->source->class_names();
  std::vector<std::string> only_train, only_val;
  std::set_difference(train.begin(), train.end(), val.begin(), val.end(), std::back_inserter(only_train));
  std::set_difference(val.begin(), val.end(), train.begin(), train.end(), std::back_inserter(only_val));
  if (only_train.empty() && only_val.empty()) return;
  std::string what = "the classes of " + sets.train->name + " (" + std::to_string(train.size()) + ") and " +
                     sets.val->name + " (" + std::to_string(val.size()) + ") differ";
  if (!only_train.empty()) what += "; only in " + sets.train->name + ": " + Listed(only_train);
  if (!only_val.empty()) what += "; only in " + sets.val->name + ": " + Listed(only_val);
  throw DataError(what, "both splits need the same class folders");
}

void RequireLabelsBelow(int64_t num_classes, const DataSets& sets) {
  for (const auto* split : {&sets.train, &sets.val}) {
    if (!*split || (*split)->source->num_classes() <= num_classes) continue;
    throw DataError("split " + (*split)->name + " has " + std::to_string((*split)->source->num_classes()) +
                        " classes, more than --num_classes=" + std::to_string(num_classes),
                    "raise --num_classes, or leave it out: it is then taken from the data");
  }
}

}  // namespace

DataSets OpenDataSets(const config::Config& config) {
  DataSets sets;
  const bool training = config.run.mode == "train";
  if (config.data.format == "synthetic") {
    sets.train = OpenSynthetic(config);
    if (!training) sets.val = OpenSynthetic(config);
  } else {
    const std::string format = DetectFormat(config.data);
    const std::string& val_split = config.data.val_split;
    if (training) sets.train = Open(format, config, Role::kTrain, config.data.train_split);
    const bool whole_file = !training && std::filesystem::is_regular_file(config.data.dir);
    if (whole_file) {
      sets.val = Open(format, config, Role::kVal, config.data.train_split);  // the file is the split
    } else if (!training || Exists(format, config.data.dir, val_split)) {
      sets.val = Open(format, config, Role::kVal, val_split, sets.train);
    }
  }
  if (sets.train && sets.val) RequireSameClasses(sets);
  for (const auto* split : {&sets.train, &sets.val}) {
    if (*split) sets.num_classes = std::max(sets.num_classes, (*split)->source->num_classes());
  }
  if (config.model.num_classes > 0) {
    RequireLabelsBelow(config.model.num_classes, sets);
    sets.num_classes = config.model.num_classes;
  }
  return sets;
}

}  // namespace dtrain::loop
