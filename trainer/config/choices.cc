#include "trainer/config/choices.h"

#include <algorithm>
#include <stdexcept>

#include "data/formats/open_source.h"
#include "data/image/augment_policy.h"
#include "data/joined.h"
#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

// The parts of a sentence, which commas join.
using Parts = std::vector<std::string>;

// Adds the flags of a section that are in use and that all optimizers read.
void AddShown(const Config& config, const char* section, Parts& parts) {
  for (const Flag& flag : Flags()) {
    const std::string shown(flag.traits.shown);
    if (flag.section != section || shown.empty() || IsOff(flag, config) || !OptimizersWith(flag.name).empty()) continue;
    parts.push_back(shown + " " + ToText(flag.get(config)));
  }
}

// Returns `list` and the names and descriptions of a table of facts.
template <typename Facts>
std::vector<Choice> ChoicesOf(const std::vector<Facts>& all, std::vector<Choice> list = {}) {
  for (const Facts& one : all) list.push_back({one.name, one.description});
  return list;
}

std::string ListOf(const std::vector<std::string_view>& flags) {
  return flags.empty() ? "" : ": --" + Joined(flags, ", --");
}

template <typename Facts>
std::string NamesWith(std::string_view flag, const std::vector<Facts>& all) {
  std::vector<std::string_view> names;
  for (const Facts& one : all) {
    if (std::ranges::count(one.flags, flag) > 0) names.push_back(one.name);
  }
  return names.empty() ? "" : Enumerated(names, "or");
}

std::string DescribeCrop(const ImageConfig& image) {
  const ImageConfig defaults;
  std::string text = image.crop == "resized" ? "crop" : image.crop + " crop";
  if (image.native_scale != defaults.native_scale) text += " (scale " + ToText(image.native_scale) + ")";
  if (image.crop_scale != defaults.crop_scale) text += " (scale " + ToText(image.crop_scale) + ")";
  if (image.crop_ratio != defaults.crop_ratio) text += " (ratio " + ToText(image.crop_ratio) + ")";
  if (image.hflip > 0) text += " and flip";
  if (image.hflip > 0 && image.hflip != defaults.hflip) text += " (" + ToText(image.hflip) + ")";
  return text;
}

}  // namespace

std::vector<Choice> DataFormats() {
  std::vector<Choice> list = ChoicesOf(data::Formats(), {{"auto", "recognised from the contents of --data_dir"}});
  list.push_back({"synthetic", "random samples, which need no files"});
  return list;
}

std::vector<Choice> Augmentations() {
  return ChoicesOf(data::Augments(), {{"auto", "basic for image files, none for tensors"}});
}

std::string WhyNotTimms(const std::string& text) {
  try {
    data::TimmAugment(text);
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

bool IsTimmAugmentation(const std::string& text) { return WhyNotTimms(text).empty(); }

std::vector<Choice> Erasings() {
  return {{"torchvision", "the mean colour, as torchvision's RandomErasing"},
          {"const", "the same, with the areas and shapes of timm's RandomErasing"},
          {"rand", "timm's: a colour drawn from a normal distribution after normalisation"},
          {"pixel", "timm's: such a colour for each pixel, cut off at black and white"}};
}

const std::vector<TaskFacts>& Tasks() {
  static const std::vector<TaskFacts> tasks = {
      {"image_classification", "one of several classes for each image",
       kImages | kLabels | kClasses | kClassWeights | kTaught},
      {"image_multilabel", "any number of several labels for each image",
       kImages | kLabels | kSeveralLabels | kClassWeights},
      {"image_regression", "a number or several for each image", kImages | kLabels | kNumbers},
      {"masked_lm", "the masked words of texts", kText | kMaskedWords},
      {"text_classification", "one of several classes for each sentence or pair of sentences",
       kText | kSentences | kLabels | kClasses | kClassWeights},
      {"text_regression", "a number for each sentence or pair of sentences", kText | kSentences | kLabels},
      {"text_multilabel", "any number of several labels for each sentence or pair of sentences",
       kText | kSentences | kLabels | kSeveralLabels},
      {"token_classification", "a tag for each word, such as those of persons' names", kText | kSentences | kLabels},
      {"sentence_embedding", "a vector for each text, near to those of texts that mean the same",
       kText | kSentences | kVectors}};
  return tasks;
}

bool TaskHas(const std::string& task, unsigned any_of) {
  const auto found = std::ranges::find(Tasks(), task, &TaskFacts::name);
  return found != Tasks().end() && (found->has & any_of) != 0;
}

std::vector<Choice> TaskChoices() { return ChoicesOf(Tasks(), {{"auto", "what the model and the data mean"}}); }

const std::vector<OptimizerFacts>& Optimizers() {
  constexpr double kSgdRate = 0.1, kSgdBatch = 256, kAdamRate = 1e-3;
  static const std::vector<OptimizerFacts> optimizers = {
      {.name = "sgd",
       .description = "stochastic gradient descent",
       .flags = {"momentum", "nesterov", "lr_in_momentum"},
       .rate = kSgdRate,
       .batch_of_rate = kSgdBatch},
      {.name = "adam",
       .description = "Adam, whose weight decay is part of the gradient",
       .flags = {"adam_betas", "adam_eps", "memory_efficient_fp16"},
       .rate = kAdamRate},
      {.name = "adamw",
       .description = "Adam with decoupled weight decay",
       .flags = {"adam_betas", "adam_eps", "memory_efficient_fp16"},
       .rate = kAdamRate},
      {.name = "fairseq_adam",
       .description = "fairseq's adam: adamw with epsilon added before the bias correction",
       .flags = {"adam_betas", "adam_eps", "memory_efficient_fp16"},
       .rate = kAdamRate},
      {.name = "stable_adamw",
       .description =
           "adamw with each tensor's rate lowered where its gradient exceeds its average, in place of clipping",
       .flags = {"adam_betas", "adam_eps"},
       .rate = kAdamRate},
      {.name = "lars",
       .description = "SGD with layer-wise rates, for large batches",
       .flags = {"momentum", "nesterov", "lars_trust", "lars_clip"},
       .defaults = "--decay_norm_and_bias=false"},
      {.name = "lamb",
       .description = "AdamW with layer-wise rates, for large batches",
       .flags = {"adam_betas", "adam_eps"},
       .rate = kAdamRate,
       .defaults = "--decay_norm_and_bias=false"},
      {.name = "rmsprop_tf",
       .description = "TensorFlow's RMSProp, for EfficientNets",
       .flags = {"momentum", "rmsprop_alpha", "rmsprop_eps"}},
      {.name = "rmsprop", .description = "PyTorch's RMSprop", .flags = {"momentum", "rmsprop_alpha", "rmsprop_eps"}}};
  return optimizers;
}

const OptimizerFacts& FactsOf(const OptimizerConfig& optimizer) {
  static const OptimizerFacts kUnknown;  // whose name is a problem of its own
  const auto found = std::ranges::find(Optimizers(), optimizer.name, &OptimizerFacts::name);
  return found == Optimizers().end() ? kUnknown : *found;
}

bool OptimizerFacts::Takes(std::string_view flag) const { return std::ranges::find(flags, flag) != flags.end(); }

std::vector<Choice> OptimizerChoices() {
  std::vector<Choice> list = ChoicesOf(Optimizers());
  for (size_t i = 0; i < list.size(); ++i) {
    const OptimizerFacts& facts = Optimizers()[i];
    list[i].description += ListOf(facts.flags) + (facts.rate ? "" : ", and --lr");
    if (facts.rate) list[i].description += "; its --lr is " + ToText(*facts.rate) + " by default";
    if (facts.batch_of_rate > 0) {
      list[i].description += ", for each " + ToText(facts.batch_of_rate) + " samples of the global batch";
    }
    if (!facts.defaults.empty()) list[i].description += "; by default " + std::string(facts.defaults);
  }
  return list;
}

std::string OptimizersWith(std::string_view flag) { return NamesWith(flag, Optimizers()); }

std::vector<Choice> Schedules() {
  std::vector<Choice> list = {
      {"poly", "a power of the part of the run that remains (1: a straight line)", {"poly_power", "end_lr"}},
      {"cosine", "half a cosine", {"end_lr"}},
      {"linear_cosine", "a line times TensorFlow's cosine", {"cosine_periods", "cosine_alpha", "cosine_beta"}},
      {"wsd", "warmup, stable, decay: the peak rate until a decay at the end", {"wsd_decay", "wsd_form", "end_lr"}},
      {"step", "times a factor every so many epochs, or at several", {"lr_decay_factor", "lr_decay_epochs"}},
      {"exponential", "as step, but smoothly at every step", {"lr_decay_factor", "lr_decay_epochs"}},
      {"constant", "the peak rate throughout"}};
  for (Choice& one : list) one.description += ListOf(one.flags);
  return list;
}

std::string SchedulesWith(std::string_view flag) { return NamesWith(flag, Schedules()); }

bool ScheduleReads(const std::string& schedule, std::string_view flag) {
  const auto reads = [&](const Choice& one) { return std::ranges::count(one.flags, flag) > 0; };
  const std::vector<Choice> all = Schedules();
  const auto found = std::ranges::find(all, schedule, &Choice::name);
  return found == all.end() || reads(*found) || std::ranges::none_of(all, reads);
}

const std::vector<LossFacts>& Losses() {
  static const std::vector<LossFacts> losses = {
      {"ce", "cross entropy", kClasses},
      {"bce", "binary cross entropy of each class by itself, averaged over the classes", kClasses | kSeveralLabels,
       "binary cross entropy"},
      {"l2", "of numbers: the squared error", kNumbers},
      {"smooth_l1", "of numbers: half of it up to an error of 1, beyond that the error less a half", kNumbers,
       "smooth L1"}};
  return losses;
}

std::vector<Choice> LossChoices() { return ChoicesOf(Losses()); }

std::vector<std::string> LossesOf(const std::string& task) {
  std::vector<std::string> names;
  for (const LossFacts& loss : Losses()) {
    if (TaskHas(task, loss.of)) names.push_back(loss.name);
  }
  return names;
}

std::vector<Choice> Crops() {
  return {{"resized", "a random part of training images and the centre of others, resized"},
          {"native",
           "pixels of the image as they are, from a random place in training and the centre otherwise; smaller "
           "images are enlarged, as by MXNet's ImageRecordIter"},
          {"native_centre", "the same, from the centre in training, too"}};
}

std::vector<Choice> AverageStarts() {
  return {{"tensorflow", "(1 + n) / (10 + n)"},
          {"nvidia", "n / (9 + n), as with its --use-ema"},
          {"timm", "1 - n^(-2/3), as with its --model-ema-warmup"},
          {"torchvision", "0, a copy of the weights, until the warmup of the rate has ended; then --ema_decay"},
          {"none", "0 at the first, then --ema_decay"}};
}

std::string Enumerated(std::vector<std::string_view> names, const std::string& conjunction) {
  const std::string last(names.back());
  names.pop_back();
  return names.empty() ? last : Joined(names) + " " + conjunction + " " + last;
}

std::string NamesOf(const std::vector<Choice>& choices) { return Joined(choices, " | ", &Choice::name); }

std::string Described(const std::vector<Choice>& choices) {
  std::string text;
  for (const auto& [name, description, flags] : choices) {
    if (!description.empty()) text += (text.empty() ? "" : "; ") + name + ": " + description;
  }
  return text;
}

std::string Lines(const std::vector<Choice>& choices) {
  constexpr size_t kColumn = 22;
  std::string lines;
  for (const auto& [name, description, flags] : choices) {
    lines += name + std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ') + description + "\n";
  }
  return lines;
}

std::string DescribeAugmentation(const Config& config, const std::string& by_default) {
  const ImageConfig& image = config.image;
  const std::string& augment = image.augment == "auto" ? by_default : image.augment;
  Parts parts;
  if (augment != "none") parts.push_back(DescribeCrop(image));
  if (augment != "none" && augment != "basic") {
    parts.push_back(IsTimmAugmentation(augment) ? augment : augment + " (" + image.augment_interpolation + ")");
  }
  AddShown(config, "image", parts);
  return parts.empty() ? "none" : Joined(parts);
}

std::string DescribeOptimizer(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  std::string own = optimizer.name;
  for (const std::string_view name : FactsOf(optimizer).flags) {
    const Flag& flag = *FindFlag(std::string(name));
    const Value value = flag.get(config);
    const std::string shown(flag.traits.shown);
    if (shown.empty()) continue;
    if (const bool* is_set = std::get_if<bool>(&value)) {
      own += *is_set ? " " + shown : "";
    } else {
      own += ", " + shown + " " + ToText(value);
    }
  }
  Parts parts = {own};
  parts.push_back("weight decay " + ToText(optimizer.weight_decay) +
                  (!optimizer.decay_norm_and_bias ? " (none on norms and biases)"
                   : !optimizer.decay_bias        ? " (none on biases)"
                                                  : ""));
  if (optimizer.backbone_lr_factor != 1) {
    parts.push_back("backbone at " + ToText(optimizer.backbone_lr_factor) + " of the learning rate");
  }
  if (optimizer.layer_decay != 1) {
    parts.push_back("each layer at " + ToText(optimizer.layer_decay) + " of the rate of the one above it");
  }
  AddShown(config, "optimizer", parts);
  const auto loss = std::ranges::find(Losses(), optimizer.loss, &LossFacts::name);
  if (loss != Losses().end() && !loss->shown.empty()) parts.push_back(loss->shown);
  return Joined(parts);
}

}  // namespace dtrain::config
