// data/formats/open_source.h reads the formats; this file makes the splits of a run from them.
#include "trainer/tasks/image_kinds.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/formats/open_source.h"
#include "data/formats/raw_rows.h"
#include "data/formats/record_index.h"
#include "data/image/augment_policy.h"
#include "data/image/image_decoder.h"
#include "data/joined.h"
#include "data/pipeline/sampler.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/image_mix.h"
#include "trainer/tasks/open_splits.h"
#include "trainer/weights/foreign_network.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kImageNetTrainSamples = 1'281'167;
constexpr int64_t kImageNetClasses = 1000;

data::ErasingOptions ErasingOf(const config::ImageConfig& image) {
  using Fill = data::ErasingOptions::Fill;
  data::ErasingOptions options{.probability = image.random_erasing, .most = image.erasing_count};
  for (size_t c = 0; c < 3; ++c) {
    options.mean[c] = 255 * image.mean[c];
    options.deviation[c] = 255 * image.std[c];
  }
  if (image.erasing == "torchvision") return options;
  options.most_area = 1.0 / 3;
  options.most_ratio = 1 / 0.3;
  options.fill = image.erasing == "pixel" ? Fill::kNoise : image.erasing == "rand" ? Fill::kColour : Fill::kMean;
  return options;
}

data::PhotometricOptions PhotometricOf(const config::ImageConfig& image) {
  data::PhotometricOptions options{.pca_lighting = image.pca_lighting, .blur = image.blur, .erasing = ErasingOf(image)};
  for (size_t i = 0; i < 3; ++i) options.hls_jitter[i] = image.hls_jitter[i];
  const std::vector<double>& jitter = image.color_jitter;
  for (size_t i = 0; i < 3; ++i) options.color_jitter[i] = jitter[jitter.size() == 1 ? 0 : i];
  if (jitter.size() == 4) options.color_jitter[3] = jitter[3];
  return options;
}

// timm's policies take the filters of the random crop.
data::PolicySettings PolicySettingsOf(const config::ImageConfig& image) {
  using data::Between;
  data::PolicySettings settings{.between = data::BetweenFromName(image.augment_interpolation)};
  if (image.interpolation == "bilinear") settings.drawn_between = {Between::kBilinear};
  if (image.interpolation == "bicubic") settings.drawn_between = {Between::kBicubic};
  for (size_t c = 0; c < 3; ++c) {
    settings.outside[c] = static_cast<uint8_t>(std::lround(255 * std::clamp(image.mean[c], 0.0, 1.0)));
  }
  return settings;
}

data::ImageDecoderOptions DecoderOptions(const config::Config& config, SplitPart part, const data::Augment& augment) {
  using Place = data::ImageDecoderOptions::Place;
  const config::ImageConfig& image = config.image;
  const bool trains = part == SplitPart::kTrain;
  const bool draws = trains && image.interpolation == "random";
  const std::string filter = trains && !draws ? image.interpolation : config::EvalInterpolation(image);
  return {.image_size = trains ? image.size : config::EvalImageSize(image),
          .eval_resize = image.eval_resize,
          .interpolation = data::InterpolationFromName(filter),
          .draws_interpolation = draws,
          .augment = augment,
          .crop = {.scale = {image.crop_scale[0], image.crop_scale[1]},
                   .ratio = {image.crop_ratio[0], image.crop_ratio[1]},
                   .flip = image.hflip},
          .native = image.crop == "resized"  ? Place::kResized
                    : image.crop == "native" ? Place::kRandom
                                             : Place::kCentre,
          .native_scale = {image.native_scale[0], image.native_scale[1]},
          .policy = PolicySettingsOf(image),
          .photometric = PhotometricOf(image),
          .exif_orientation = image.exif_orientation,
          .seed = config.batch.seed};
}

// --augment, for training only; `by_default` is what `auto` means for this format.
data::Augment AugmentOf(const config::Config& config, SplitPart part, const char* by_default) {
  if (part != SplitPart::kTrain) return data::AugmentNamed("none");
  return data::AugmentNamed(config.image.augment == "auto" ? by_default : config.image.augment);
}

// Returns the value of --label_offset, which was checked before; empty if it is auto.
std::optional<int64_t> LabelOffset(const config::DataConfig& data) {
  return data.label_offset == "auto" ? std::nullopt : std::optional<int64_t>(std::stoll(data.label_offset));
}

std::unique_ptr<data::SampleDecoder> MakeDecoder(const config::Config& config, SplitPart part,
                                                 const data::RecordSource& source) {
  if (source.kind() == data::RecordKind::kTokens) {
    throw UsageError(source.Place(0).file + " holds tokens, but --model=" + config.model.name + " takes images",
                     "choose a model of text, or other data");
  }
  const bool has_pixels = source.kind() == data::RecordKind::kPixels;
  const data::Augment augment = AugmentOf(config, part, has_pixels ? "none" : "basic");
  const std::string needing_crops = config::FlagsThatNeedCrops(config);
  if (has_pixels && part == SplitPart::kTrain && !augment.crops && !needing_crops.empty()) {
    throw UsageError(needing_crops + ": the images of a safetensors file are not augmented by default",
                     "use --augment=basic, which also makes random crops");
  }
  if (!has_pixels) return std::make_unique<data::ImageDecoder>(DecoderOptions(config, part, augment));
  if (!augment.crops) return std::make_unique<data::RawRowDecoder>(source.rows());
  return std::make_unique<data::ImageDecoder>(DecoderOptions(config, part, augment), source.rows());
}

// Opens the splits of one data set.
class Opener {
 public:
  Opener(const config::Config& config, const data::Classes& known, data::SharedIndexes* indexes)
      : config_(config), known_(known), format_(FormatOf(config.data)), indexes_(indexes) {}

  const std::string& format() const { return format_; }

  // `sets` are the splits that are open already: their classes are those of the split.
  DataSplit Open(const std::string& split, SplitPart part, const DataSets& sets) const {
    if (part == SplitPart::kHeldOut) return {split, nullptr, MakeDecoder(config_, part, *sets.train->source)};
    const std::vector<const DataSplit*> open = AllSplits(sets);
    auto source = OpenSource(split, open.empty() ? FirstClasses(split, part) : open.back()->source->classes());
    const auto* table = dynamic_cast<const data::ImageTable*>(source.get());
    DataSplit opened{split, nullptr, MakeDecoder(config_, part, *source)};
    if (table != nullptr) opened.groups = table->groups();
    opened.source = std::move(source);
    return opened;
  }

 private:
  data::Classes FirstClasses(const std::string& split, SplitPart part) const {
    return part == SplitPart::kVal && !IsOneFile(config_.data) ? ClassesForEvaluation(split) : known_;
  }

  // Returns the classes for an evaluation with weights that may know only the number of their classes. If the
  // validation split has that many class folders, their order tells which class is which. Otherwise the training split
  // tells, if it is there. Throws DataError if its classes do not fit the weights.
  data::Classes ClassesForEvaluation(const std::string& val_split) const {
    const data::Classes& known = known_;
    const bool can_ask = HasSplit(config_.data, format_, config_.data.train_split);
    if (!known.names.empty() || known.label_offset || !can_ask) return known;
    if (format_ == data::kImageFolder && OpenSource(val_split, {})->num_classes() == known.count) return known;
    data::Classes classes = OpenSource(config_.data.train_split, {})->classes();
    if (known.count == 0 || known.count == classes.count) return classes;
    const bool insists = config_.model.num_classes > 0;
    const std::string what = "the weights know " + std::to_string(known.count) + " classes, but split " +
                             config_.data.train_split + " of " + DataName(config_.data) + " has " +
                             std::to_string(classes.count);
    if (known.count < classes.count || !(insists || classes.names.empty())) {
      throw DataError(what + ": the same label would mean different classes",
                      "name the data that the weights were trained on; if the classes of this data are the first ones "
                      "of the weights, give --num_classes=" +
                          std::to_string(known.count));
    }
    if (!insists) report::LogWarning(what + ": assuming that its classes are the first ones of the weights");
    return classes;
  }

  std::unique_ptr<data::RecordSource> OpenSource(const std::string& split, const data::Classes& classes) const {
    const data::SourceOptions options{.data_dir = config_.data.dir,
                                      .format = format_,
                                      .labels = KindOf(config_).labels(),
                                      .table = LabelTableOf(config_.data),
                                      .index_dir = config_.data.index_dir,
                                      .label_offset = LabelOffset(config_.data),
                                      .classes = classes,
                                      .keep_index = !config_.run.dry_run,
                                      .note = &report::LogWarning,
                                      .indexes = indexes_};
    return data::OpenSource(options, split);
  }

  const config::Config& config_;
  const data::Classes& known_;
  const std::string format_;
  data::SharedIndexes* indexes_;
};

// Labels are those of --num_classes, else of the classes that the weights know, else of ImageNet.
DataSplit OpenSynthetic(const config::Config& config, const data::Classes& known) {
  const int64_t otherwise = known.count > 0 ? known.count : kImageNetClasses;
  const int64_t classes = config.model.num_classes > 0 ? config.model.num_classes : otherwise;
  const int64_t side = config.run.mode == "train" ? config.image.size : config::EvalImageSize(config.image);
  auto source = std::make_unique<data::Synthetic>(kImageNetTrainSamples, classes, side, side, config.batch.seed);
  auto decoder = std::make_unique<data::RawRowDecoder>(source->rows());
  const std::string needing_crops = config::FlagsThatNeedCrops(config);
  if (!needing_crops.empty()) report::LogWarning("synthetic images are not augmented; ignoring " + needing_crops);
  return {"synthetic", std::move(source), std::move(decoder)};
}

// Returns the place of the first record whose label is `num_classes` or more; empty if there is no such record.
std::string FirstBeyond(const data::RecordSource& source, int64_t num_classes) {
  for (int64_t i = 0; i < source.size(); ++i) {
    if (source.Label(i) >= num_classes) return source.Location(i);
  }
  return "";
}

void RequireLabelsBelow(int64_t num_classes, const DataSets& sets) {
  for (const DataSplit* split : AllSplits(sets)) {
    if (const int64_t labels = split->source->num_targets(); labels > 0 && labels != num_classes) {
      throw UsageError("--num_classes=" + std::to_string(num_classes) + ": split " + split->name + " has " +
                           CountOf(labels, "label"),
                       "leave it out: it is then taken from the data");
    }
    if (split->source->num_classes() <= num_classes) continue;
    const std::string where = FirstBeyond(*split->source, num_classes);
    throw DataError("split " + split->name + " has " + CountOf(split->source->num_classes(), "class") +
                        ", more than --num_classes=" + std::to_string(num_classes) +
                        (where.empty() ? "" : "; the first record beyond it is " + where),
                    "raise --num_classes, or leave it out: it is then taken from the data");
  }
}

// Only uint8 tensors are normalised: with two dtypes the model would be validated on other values than it learns from.
void RequireSameRows(const data::RecordSource& train, const data::RecordSource& val) {
  if (train.kind() != val.kind() || train.rows().type == val.rows().type) return;
  throw DataError("images of " + train.Location(0) + " and " + val.Location(0) + " differ: one is float32, one uint8",
                  "float32 images are used unchanged, uint8 images are normalised: use one kind for both");
}

// Checks the sizes in which the network will see images.
void RequireSizes(const config::Config& config, const DataSets& sets) {
  const auto require = [&config](const DataSplit& split, int64_t size) {
    const data::Field images = split.decoder->fields(size).front();
    const size_t rows = images.type == data::ElementType::kUInt8 ? 0 : 1;  // H×W×3 or 3×H×W
    weights::RequireImageSize(config, images.row_shape[rows], images.row_shape[rows + 1]);
  };
  const data::SizeSchedule schedule = *data::ParseSizeSchedule(config.image.size_schedule);
  for (const data::SizeChange& change : schedule) {
    if (sets.train) require(*sets.train, change.size);
  }
  constexpr int64_t kOwnSize = 0;
  for (const DataSplit* split : AllSplits(sets)) {
    const bool is_scheduled = sets.train && split == &*sets.train && !schedule.empty();
    if (!is_scheduled) require(*split, kOwnSize);
  }
}

}  // namespace

std::unique_ptr<data::SampleDecoder> MakeEvaluationDecoder(const config::Config& config) {
  return std::make_unique<data::ImageDecoder>(DecoderOptions(config, SplitPart::kVal, data::AugmentNamed("none")));
}

DataSets OpenImageSets(const config::Config& config, const data::Classes& known, data::SharedIndexes* indexes) {
  DataSets sets;
  if (config.data.format == "synthetic") {
    sets.train = OpenSynthetic(config, known);
    if (config.run.mode != "train") sets.val = OpenSynthetic(config, known);
  } else {
    const Opener opener(config, known, indexes);
    const auto open = [&](const std::string& split, SplitPart part) { return opener.Open(split, part, sets); };
    OpenSplits(config, opener.format(), open, sets);
  }
  if (sets.train) sets.train->collate = MixBatches(config, sets.train->source->size());
  RequireSizes(config, sets);
  sets.classes = (sets.train ? sets.train : sets.val)->source->classes();
  for (const DataSplit* split : AllSplits(sets)) {
    if (sets.train) RequireSameRows(*sets.train->source, *split->source);
    sets.num_classes = std::max(sets.num_classes, split->source->num_classes());
  }
  if (config.model.num_classes > 0) {
    RequireLabelsBelow(config.model.num_classes, sets);
    sets.num_classes = config.model.num_classes;
  }
  return sets;
}

}  // namespace dtrain::tasks
