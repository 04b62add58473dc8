// Checks first the ranges of the table, flag by flag, then the rules between flags, one small function per concern. A
// rule reports nothing if its flags are out of range, so that one mistake gives one line. Each problem is one line,
// because log collectors split texts at line ends.
#include "trainer/config/problems.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "data/command_line/parser.h"
#include "data/joined.h"
#include "data/pipeline/sampler.h"
#include "data/whole_number.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using Names = std::vector<std::string_view>;

bool Has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the families that list the flag; empty if it is no option of a family.
Names FamiliesWith(const std::string& flag, const ModelFacts& models) {
  Names families;
  for (const auto& [family, options] : models.families) {
    if (std::find(options.begin(), options.end(), flag) != options.end()) families.push_back(family);
  }
  return families;
}

// Returns the names for a sentence: "masked_lm and text_classification".
std::string Listed(const Names& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + std::string(names[i]);
  }
  return text;
}

// Returns what does not use the flag, and what would, for Problem::unused; an empty string if it is used.
std::string WhoDoesNotUse(const Flag& flag, const Config& config, const ModelFacts& models) {
  const std::string& task = config.run.task;
  const unsigned used_by = flag.traits.used_by;
  if (used_by != 0 && task != "auto" && !TaskHas(task, used_by)) {
    Names tasks;
    for (const TaskFacts& one : Tasks()) {
      if ((one.has & used_by) != 0) tasks.push_back(one.name);
    }
    return "--task=" + task + " (it is for " + Listed(tasks) + ")";
  }
  const Names families = FamiliesWith(flag.name, models);
  if (models.family.empty() || families.empty() || Has(families, models.family)) return "";
  return "--model=" + config.model.name + " (it is for " + Listed(families) + ")";
}

bool HasProblem(const std::vector<Problem>& problems, const std::string& flag) {
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) { return problem.flag == flag; });
}

using command_line::DidYouMean;
using List = std::vector<Problem>;

// A rule between flags, or on a value that no range describes.
struct Rule {
  const char* flag = "";  // that the user is told to change
  bool broken = false;
  std::string expected = {};
  std::string hint = {};
};
using Rules = std::vector<Rule>;

bool HasEnding(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&name](std::string_view ending) { return name.ends_with(ending); });
}

Rules ModeRules(const Config& config) {
  const RunConfig& run = config.run;
  const bool trains = run.mode == "train", predicts = run.mode == "predict", exports = run.mode == "export";
  const bool is_file = !config.model.init_weights.empty();
  // A file of torch.save may have an average, too.
  const bool has_weights = run.weights == "auto" || run.weights == "last" || (run.weights == "ema" && is_file);
  const bool is_table = run.predictions.ends_with(".csv") || run.predictions.ends_with(".jsonl");
  const bool is_array = run.features.ends_with(".npy") || run.features.ends_with(".safetensors");
  const std::string prediction = "--mode=predict reads images or tensors and writes the model's predictions";
  const std::string exporting = "--mode=export reads weights and writes them for other programs";
  return {
      {.flag = "weights",
       .broken = !has_weights && trains,
       .expected = "--mode=eval or predict with it",
       .hint = "training always continues from the last state"},
      {.flag = "weights",
       .broken = !has_weights && !trains && is_file,
       .expected = "no --init_weights with it",
       .hint = "only a run keeps its best weights"},
      {.flag = "predictions", .broken = !run.predictions.empty() && !is_table, .expected = "FILE.csv or FILE.jsonl"},
      {.flag = "predictions",
       .broken = is_table && run.mode != "eval",
       .expected = "--mode=eval with it",
       .hint = "--mode=predict has --output=FILE"},
      {.flag = "features", .broken = !run.features.empty() && !is_array, .expected = "FILE.npy or FILE.safetensors"},
      {.flag = "features",
       .broken = is_array && !predicts,
       .expected = "--mode=predict with it",
       .hint = "no other mode computes them"},
      {.flag = "features",
       .broken = is_array && predicts && !run.output.empty(),
       .expected = "no --output with it",
       .hint = "predict in a command of its own"},
      {.flag = "input",
       .broken = predicts && run.input.empty(),
       .expected = "images, or a safetensors file",
       .hint = prediction},
      {.flag = "output",
       .broken = predicts && run.output.empty() && run.features.empty(),
       .expected = "FILE.csv or FILE.jsonl, or a safetensors file",
       .hint = prediction},
      {.flag = "output",
       .broken = predicts && !run.output.empty() && !HasEnding(run.output, {".csv", ".jsonl", ".safetensors"}),
       .expected = "FILE.csv or FILE.jsonl, or a safetensors file",
       .hint = prediction},
      {.flag = "input",
       .broken = exports && run.input.empty(),
       .expected = "a run's folder or a file of weights",
       .hint = exporting},
      {.flag = "output",
       .broken = exports && run.output.empty(),
       .expected = "FILE.safetensors, FILE.pt or a folder",
       .hint = exporting},
      {.flag = "data_dir",
       .broken = !predicts && !exports && config.data.dir.empty() && config.data.labels.empty() &&
                 config.data.format != "synthetic",
       .expected = "a folder with data",
       .hint = "--data_format=synthetic needs none"},
  };
}

Rules RunRules(const Config& config) {
  const RunConfig& run = config.run;
  const std::optional<double> seconds = NumberFrom(run.save_every_seconds);
  const bool evaluates = run.eval_every_epochs != 0 || run.eval_every_steps != 0;
  return {
      {.flag = "resume",
       .broken = run.resume == "last" && !run.dir.empty(),
       .expected = "no --run_dir with it",
       .hint = "last means the newest run in runs/; use auto for this run"},
      {.flag = "save_every_seconds",
       .broken = run.save_every_seconds != "auto" && !(seconds && std::isfinite(*seconds) && *seconds >= 0),
       .expected = "auto, or a finite number, 0 or more"},
      {.flag = "stop_after_epochs_without_gain",
       .broken = run.mode == "train" && run.stop_after_epochs_without_gain > 0 && !evaluates,
       .expected = "--eval_every_epochs or --eval_every_steps above 0 with it",
       .hint = "the gain is measured by evaluations"},
  };
}

Rules DataRules(const Config& config) {
  const DataConfig& data = config.data;
  std::vector<std::string> splits = ValSplits(data);
  std::sort(splits.begin(), splits.end());
  const bool repeats = std::adjacent_find(splits.begin(), splits.end()) != splits.end();
  const std::optional<int64_t> offset = data::WholeNumber(data.label_offset);
  const bool cuts_split = data.val_fraction > 0 && config.run.mode == "train";
  const bool balanced = data.sampling == "balanced";
  return {
      {.flag = "train_split",
       .broken = data.train_split.empty(),
       .expected = "the name of a split",
       .hint = "as in train"},
      {.flag = "val_split",
       .broken = splits.front().empty() || repeats,
       .expected = "one name, or different names with commas between them",
       .hint = "as in valid,test"},
      {.flag = "labels",
       .broken = !data.labels.empty() && data.format != "auto",
       .expected = "no --data_format with it",
       .hint = "the table names the images"},
      {.flag = "label_offset",
       .broken = data.label_offset != "auto" && !(offset && *offset >= 0 && *offset <= 1'000'000'000),
       .expected = "auto, or a whole number, 0 to 1000000000"},
      {.flag = "val_fraction",
       .broken = cuts_split && WasGiven(config, "val_split"),
       .expected = "no --val_split with it",
       .hint = "it makes a validation split from a part of the training split, if there is none"},
      {.flag = "val_fraction",
       .broken = cuts_split && data.format == "synthetic",
       .expected = "other data than --data_format=synthetic",
       .hint = "synthetic samples are random, so there is nothing to validate"},
      {.flag = "val_fold",
       .broken = !data.val_fold.empty() && !ParseFold(data.val_fold),
       .expected = "I/K with I from 1 to K, and K from 2 to 1000",
       .hint = "as in 1/5"},
      {.flag = "val_fold",
       .broken = !data.val_fold.empty() &&
                 (data.val_fraction > 0 || WasGiven(config, "val_split") || data.format == "synthetic"),
       .expected = "neither --val_fraction nor --val_split nor synthetic data with it",
       .hint = "it makes a validation split from a part of the training split"},
      {.flag = "shuffle",
       .broken = balanced && data.shuffle != "global",
       .expected = "global with --sampling=balanced",
       .hint = "the samples of small classes are repeated all over an epoch"},
      {.flag = "max_tokens",
       .broken = balanced && config.text.max_tokens > 0,
       .expected = "0 with --sampling=balanced",
       .hint = "batches of a budget are the same in all epochs; --batch_size counts sentences"},
  };
}

Rules TableRules(const Config& config) {
  Rules rules;
  const bool lacks_table = config.data.labels.empty() && TaskHas(config.run.task, kImages);
  for (const char* flag : {"image_column", "label_column", "split_column", "group_column"}) {
    const bool is_said = WasGiven(config, flag) && FindFlag(flag)->get(config) != FindFlag(flag)->get(Config());
    rules.push_back({.flag = flag,
                     .broken = lacks_table && is_said,
                     .expected = "--labels=TABLE with it",
                     .hint = "folders of images have no columns"});
  }
  return rules;
}

bool IsColorJitter(const std::vector<double>& jitter) {
  return jitter.size() == 1 || jitter.size() == 3 || (jitter.size() == 4 && jitter[3] <= 0.5);
}

bool IsRange(const std::vector<double>& range) {
  return range.size() == 2 && range.front() > 0 && range.front() <= range.back();
}

Rules ImageRules(const Config& config) {
  const ImageConfig& image = config.image;
  const std::string three = "three numbers with commas between them", colors = "one each for red, green and blue";
  const std::string range = "two numbers above 0, the first not greater than the second";
  const std::string needing_crops = FlagsThatNeedCrops(image);
  const int64_t side = EvalImageSize(image);
  const bool mixes_up = image.mixup > 0;
  return {
      {.flag = "mean", .broken = image.mean.size() != 3, .expected = three, .hint = colors},
      {.flag = "std", .broken = image.std.size() != 3, .expected = three, .hint = colors},
      {.flag = "color_jitter",
       .broken = !IsColorJitter(image.color_jitter),
       .expected = "one, three or four numbers, the fourth 0.5 or less",
       .hint = "brightness, contrast, saturation and hue"},
      {.flag = "crop_scale",
       .broken = !IsRange(image.crop_scale),
       .expected = range,
       .hint = "for example " + ToText(ImageConfig().crop_scale)},
      {.flag = "crop_ratio",
       .broken = !IsRange(image.crop_ratio),
       .expected = range,
       .hint = "for example " + ToText(ImageConfig().crop_ratio)},
      {.flag = "augment",
       .broken = image.augment == "none" && !needing_crops.empty(),
       .expected = "basic or more with " + needing_crops,
       .hint = "these effects are applied to random crops"},
      {.flag = "eval_resize",
       .broken = image.eval_resize > 0 && image.eval_resize < side,
       .expected =
           (image.eval_size > 0 ? "--eval_image_size (" : "--image_size (") + std::to_string(side) + ") or more, or 0",
       .hint = "the central crop cannot be larger than the image"},
      {.flag = mixes_up ? "mixup" : "cutmix",
       .broken = (mixes_up || image.cutmix > 0) && config.run.mode == "train" && config.batch.batch_size == 1,
       .expected = "--batch_size of 2 or more with it",
       .hint = "an image is mixed with another one of its batch"},
  };
}

Rules SizeScheduleRules(const Config& config) {
  const auto schedule = data::ParseSizeSchedule(config.image.size_schedule);
  const int64_t last_epoch = schedule && !schedule->empty() ? schedule->back().epoch : -1;
  return {
      {.flag = "image_size_schedule",
       .broken = !schedule,
       .expected = "EPOCH:SIZE,..., epochs ascending from 0, sizes 1 to 8192",
       .hint = "as in 0:160,6:176,12:192"},
      {.flag = "image_size_schedule",
       .broken = last_epoch >= 0 && static_cast<double>(last_epoch) >= config.batch.epochs,
       .expected = "epochs below --epochs (" + ToText(config.batch.epochs) + ")",
       .hint = "epoch " + std::to_string(last_epoch) + " would never be reached"},
  };
}

Rules TextRules(const Config& config) {
  const TextConfig& text = config.text;
  constexpr int64_t kSmallestVocabulary = 5;  // <s>, <pad>, </s>, <unk> and <mask>
  return {
      {.flag = "vocab_size",
       .broken = text.vocab_size > 0 && text.vocab_size < kSmallestVocabulary,
       .expected = std::to_string(kSmallestVocabulary) + " or more, or 0",
       .hint = "<s>, <pad>, </s>, <unk> and <mask> are part of every vocabulary"},
      {.flag = "max_tokens",
       .broken = text.max_tokens > 0 && text.max_tokens < text.tokens_per_sample,
       .expected = "--tokens_per_sample (" + std::to_string(text.tokens_per_sample) + ") or more, or 0",
       .hint = "a batch must have room for at least one block"},
      {.flag = "global_batch_size",
       .broken = text.max_tokens > 0 && config.batch.global_batch_size,
       .expected = "--grad_accum_steps instead, with --max_tokens",
       .hint = "with a budget of tokens, the number of blocks differs from batch to batch"},
  };
}

std::string OptimizersWith(std::string_view flag) {
  std::vector<std::string> names;
  for (const OptimizerFacts& one : Optimizers()) {
    if (one.Takes(flag)) names.push_back(one.name);
  }
  return Joined(names, " or ");
}

Rules OptimizerRules(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  const OptimizerFacts& facts = FactsOf(optimizer);
  const bool is_known = !facts.name.empty();
  const bool is_plain_adam = facts.has_half_state;  // recipes of sgd are tried with it by changing --optimizer alone
  return {
      {.flag = "nesterov",
       .broken = optimizer.nesterov && optimizer.momentum == 0,
       .expected = "--momentum above 0 with it",
       .hint = "use --nonesterov, or --momentum=0.9"},
      {.flag = "nesterov",
       .broken = optimizer.nesterov && is_known && !facts.Takes("nesterov") && !is_plain_adam,
       .expected = "--optimizer=" + OptimizersWith("nesterov") + " with it",
       .hint = optimizer.name + " does not support it"},
      {.flag = "lars_clip",
       .broken = optimizer.lars_clip && is_known && !facts.Takes("lars_clip"),
       .expected = "--optimizer=" + OptimizersWith("lars_clip") + " with it",
       .hint = "only lars gives each layer a rate"},
      {.flag = "lr",
       .broken = !optimizer.lr && is_known && !facts.rate,
       .expected = "a peak learning rate with --optimizer=" + optimizer.name,
       .hint = "no default suits most runs; see the examples in scripts/recipes"},
      {.flag = "adam_betas",
       .broken = optimizer.adam_betas.size() != 2,
       .expected = "two numbers with a comma between them",
       .hint = "such as 0.9,0.98"},
  };
}

Rules ScheduleRules(const Config& config) {
  const ScheduleConfig& schedule = config.schedule;
  const int64_t warmup = schedule.warmup_steps.value_or(0);
  const bool warms_up_twice = schedule.warmup_epochs > 0 && schedule.warmup_steps;
  const std::vector<double>& epochs = schedule.decay_epochs;
  const bool ascends = std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal<>()) == epochs.end();
  return {
      {.flag = "warmup_steps",
       .broken = warms_up_twice,
       .expected = "no value with --warmup_epochs=" + ToText(schedule.warmup_epochs),
       .hint = "give the warmup either in epochs or in steps"},
      {.flag = "warmup_steps",
       .broken = !warms_up_twice && schedule.schedule_steps && warmup > *schedule.schedule_steps,
       .expected = "--schedule_steps (" + std::to_string(schedule.schedule_steps.value_or(0)) + ") or less",
       .hint = "the warmup would not end"},
      {.flag = "lr_decay_epochs",
       .broken = epochs.empty() || (epochs.size() > 1 && (!ascends || schedule.name != "step")),
       .expected = "one number, or with --lr_schedule=step several that ascend",
       .hint = "as in --lr_decay_epochs=30,60,80"},
  };
}

// Refuses flags of a moving average that is not kept, and of losses that nobody watches.
Rules AverageAndSpikeRules(const Config& config) {
  const OptimizerConfig &optimizer = config.optimizer, defaults;
  const bool averages = optimizer.ema_decay != 0, watches = optimizer.spike_factor != 0;
  const std::string no_average = "without it no average of the weights is kept";
  return {
      {.flag = "ema_start",
       .broken = !averages && optimizer.ema_start != defaults.ema_start,
       .expected = "--ema_decay with it",
       .hint = no_average},
      {.flag = "ema_every",
       .broken = !averages && optimizer.ema_every != defaults.ema_every,
       .expected = "--ema_decay with it",
       .hint = no_average},
      {.flag = "ema_scaling",
       .broken = !averages && optimizer.ema_scaling != defaults.ema_scaling,
       .expected = "--ema_decay with it",
       .hint = no_average},
      {.flag = "on_spike",
       .broken = !watches && optimizer.on_spike != defaults.on_spike,
       .expected = "--spike_factor with it",
       .hint = "without it losses are not watched; 6 is rare in a healthy run"},
  };
}

Rules LossRules(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  const bool is_binary = optimizer.loss == "bce", predicts_numbers = TaskHas(config.run.task, kNumbers);
  const std::vector<std::string> losses = LossesOf(config.run.task);
  const std::string hint = "the cross entropy has no questions of single classes";
  return {
      {.flag = "loss",
       .broken = TaskHas(config.run.task, kImages) && !losses.empty() &&
                 std::ranges::find(losses, optimizer.loss) == losses.end(),
       .expected = Joined(losses, " or ") + " with --task=" + config.run.task},
      {.flag = "num_classes",
       .broken = config.model.num_classes > 0 && predicts_numbers,
       .expected = "0 with --task=" + config.run.task,
       .hint = "the model has an output for each column of numbers"},
      {.flag = "bce_threshold",
       .broken = !is_binary && optimizer.bce_threshold.has_value(),
       .expected = "--loss=bce with it",
       .hint = hint},
      {.flag = "bce_sum", .broken = !is_binary && optimizer.bce_sum, .expected = "--loss=bce with it", .hint = hint}};
}

Rules ClassWeightRules(const Config& config) {
  const std::string& weights = config.optimizer.class_weights;
  const bool mixes = config.image.mixup > 0 || config.image.cutmix > 0;
  // The weights of several labels are for any targets.
  const bool is_of_classes = !TaskHas(config.run.task, kSeveralLabels | kNumbers);
  const bool from_counts = weights == "inverse" || weights == "sqrt" || weights == "effective";
  return {
      {.flag = "class_weights", .broken = weights.empty(), .expected = "none, inverse, sqrt, effective or a file"},
      {.flag = "class_weights",
       .broken = weights != "none" && is_of_classes && (config.optimizer.loss != "ce" || mixes),
       .expected = "--loss=ce without --mixup and --cutmix",
       .hint = "the weights are those of the cross entropy of single classes"},
      {.flag = "class_weights",
       .broken = config.data.sampling == "balanced" && from_counts,
       .expected = "none or a file with --sampling=balanced",
       .hint = "either of them makes up for unequal classes; both would favour the small ones"},
  };
}

Rules TeacherRules(const Config& config) {
  const TeacherConfig &teacher = config.teacher, defaults;
  const bool has_temperature = teacher.temperature != defaults.temperature;
  Rules rules = {{.flag = "distill_temperature",
                  .broken = !teacher.weights.empty() && teacher.distill == "hard" && has_temperature,
                  .expected = "--distill=soft with it",
                  .hint = "the likeliest class is the same at every temperature"}};
  for (const auto& [flag, is_set] : {std::pair("teacher_model", !teacher.model.empty()),
                                     {"distill", teacher.distill != defaults.distill},
                                     {"distill_weight", teacher.weight != defaults.weight},
                                     {"distill_temperature", has_temperature}}) {
    rules.push_back({.flag = flag,
                     .broken = teacher.weights.empty() && is_set,
                     .expected = "--teacher with it",
                     .hint = "without it nothing is learned but the labels"});
  }
  return rules;
}

Rules PrecisionRules(const Config& config) {
  const std::string &precision = config.precision.name, &optimizer = config.optimizer.name;
  const bool saves_memory = config.precision.memory_efficient_fp16;
  const bool is_fp16 = precision == "fp16" || precision == "fp32";  // fp32 is the default if no precision was given
  const std::optional<double> scale = NumberFrom(config.precision.loss_scale);
  const bool is_scale = scale && *scale > 0 && *scale <= 3e38;  // float32 holds it
  return {
      {.flag = "loss_scale",
       .broken = config.precision.loss_scale != "dynamic" && !is_scale,
       .expected = "dynamic, or a number above 0, at most 3e38",
       .hint = "for example 1024"},
      {.flag = "memory_efficient_fp16",
       .broken = saves_memory && !is_fp16,
       .expected = "--precision=fp16 with it",
       .hint = "--precision=" + precision + " is given"},
      {.flag = "memory_efficient_fp16",
       .broken = saves_memory && !FactsOf(config.optimizer).has_half_state,
       .expected = "--optimizer=adam, adamw or fairseq_adam with it",
       .hint = "--optimizer=" + optimizer + " keeps its state in fp32"},
      {.flag = "memory_efficient_fp16",
       .broken = saves_memory && config.optimizer.ema_decay > 0,
       .expected = "no --ema_decay with it",
       .hint = "half precision is too coarse for the small updates of an average"},
  };
}

bool IsIpAddress(const std::string& text) {
  in6_addr address{};  // also large enough for an IPv4 address
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

Rules RankAndReportRules(const Config& config) {
  const RanksConfig& ranks = config.ranks;
  const int64_t world_size = ranks.world_size.value_or(0);
  const bool names_count = !ranks.nproc_per_node.empty() && ranks.nproc_per_node != "auto";
  const int64_t count = data::WholeNumber(ranks.nproc_per_node).value_or(0);
  return {
      {.flag = "nproc_per_node",
       .broken = names_count && (count < 1 || count > 1024),
       .expected = "auto, or a whole number, 1 to 1024"},
      {.flag = "rank",
       .broken = world_size > 0 && ranks.rank.value_or(0) >= world_size,
       .expected = "less than --world_size (" + std::to_string(world_size) + ")",
       .hint = "ranks count from 0"},
      {.flag = "profile_steps",
       .broken = !config.report.profile_steps.empty() && !ParseStepRange(config.report.profile_steps),
       .expected = "FIRST:LAST, 1 or more, FIRST not after LAST",
       .hint = "a trace grows by megabytes a step: profile a few, as in --profile_steps=10:12"},
      {.flag = "metrics_address",
       .broken = !IsIpAddress(config.report.metrics_address),
       .expected = "an IPv4 or IPv6 address of this machine",
       .hint = "127.0.0.1 for this machine alone, 0.0.0.0 for everyone who can reach it"},
  };
}

void CheckRules(const Config& config, List& problems) {
  for (const auto& rules_of : {ModeRules, RunRules, DataRules, TableRules, ImageRules, SizeScheduleRules, TextRules,
                               OptimizerRules, ScheduleRules, AverageAndSpikeRules, LossRules, ClassWeightRules,
                               TeacherRules, PrecisionRules, RankAndReportRules}) {
    for (const Rule& rule : rules_of(config)) {
      if (rule.broken) problems.push_back({.flag = rule.flag, .expected = rule.expected, .hint = rule.hint});
    }
  }
}

void CheckModel(const ModelConfig& model, const ModelFacts& facts, List& problems) {
  const std::vector<std::string>&names = facts.names, &of_any_shape = facts.of_any_shape;
  if (!model.config_file.empty() && std::ranges::find(of_any_shape, model.name) == of_any_shape.end()) {
    problems.push_back({.flag = "model_config",
                        .expected = "--model=" + Joined(of_any_shape, " or ") + " with it",
                        .hint = "--model=" + model.name + " defines its own shape"});
  }
  if (names.empty() || std::ranges::find(names, model.name) != names.end()) return;
  problems.push_back(
      {.flag = "model", .expected = "one of " + Joined(names, " | "), .hint = DidYouMean(model.name, names)});
}

void CheckBatch(const Config& config, int world_size, List& problems) {
  for (const char* name : {"batch_size", "global_batch_size", "grad_accum_steps", "elastic_shards"}) {
    const Flag* flag = FindFlag(name);
    if (!flag->limits.Allow(flag->get(config))) return;
  }
  CheckElastic(config, world_size, problems);
  if (IsElastic(config)) return;
  if (const auto problem = BatchMistake(config.batch, world_size)) problems.push_back(*problem);
}

// Returns the flag's value as one would write it; nothing if the flag was not given and has no default.
std::string ValueOf(const std::string& name, const Config& config) {
  const Flag& flag = *FindFlag(name);
  const std::string text = ToText(flag.get(config));
  return text.empty() && text != ToText(flag.get(Config())) ? "\"\"" : text;
}

}  // namespace

void CheckUses(const Config& config, const ModelFacts& models, std::vector<Problem>& problems) {
  const Config defaults;
  for (const Flag& flag : Flags()) {
    if (!WasGiven(config, flag.name) || HasProblem(problems, flag.name)) continue;
    const Value value = flag.get(config);
    if (value == flag.get(defaults) || Has(flag.traits.also_off, ToText(value))) continue;
    const std::string unused = WhoDoesNotUse(flag, config, models);
    if (!unused.empty()) problems.push_back({.flag = flag.name, .hint = "leave it out", .unused = unused});
  }
}

std::string Describe(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    const std::string given = problem.value.empty() ? " is not set" : "=" + problem.value;
    text += (text.empty() ? "" : "\n") + ("--" + problem.flag) + given +
            (problem.unused.empty() ? ": expected " + problem.expected : ": not used by " + problem.unused);
    if (!problem.hint.empty()) text += "; " + problem.hint;
  }
  return text;
}

std::string FlagsThatNeedCrops(const ImageConfig& image) {
  std::string flags;
  const auto add = [&flags](bool used, const char* name) {
    if (used) flags += (flags.empty() ? "--" : ", --") + std::string(name);
  };
  const std::vector<double>& jitter = image.color_jitter;
  add(jitter != std::vector<double>(jitter.size(), 0), "color_jitter");
  const ImageConfig defaults;
  add(image.crop_scale != defaults.crop_scale, "crop_scale");
  add(image.crop_ratio != defaults.crop_ratio, "crop_ratio");
  add(image.hflip != defaults.hflip, "hflip");
  add(image.pca_lighting > 0, "pca_lighting");
  add(image.blur > 0, "blur");
  add(image.random_erasing > 0, "random_erasing");
  add(!image.size_schedule.empty(), "image_size_schedule");
  return flags;
}

namespace {

// Leaves out tasks of texts where one of images was meant, and the other way round.
std::vector<std::string> OfSameData(const std::string& text, std::vector<std::string> choices) {
  for (const auto& pair : {std::pair("image_", "text_"), std::pair("text_", "image_")}) {
    if (!text.starts_with(pair.first)) continue;
    std::erase_if(choices, [&pair](const std::string& one) { return one.starts_with(pair.second); });
  }
  return choices;
}

}  // namespace

std::vector<Problem> OutOfRange(const Config& config) {
  List problems;
  for (const Flag& flag : Flags()) {
    const Value value = flag.get(config);
    if (flag.limits.Allow(value)) continue;
    const auto* text = std::get_if<std::string>(&value);
    problems.push_back({.flag = flag.name,
                        .value = ValueOf(flag.name, config),
                        .expected = Expected(flag.kind, flag.limits),
                        .hint = text ? DidYouMean(*text, OfSameData(*text, flag.limits.choices)) : ""});
  }
  return problems;
}

std::vector<Problem> Problems(const Config& config, int world_size, const ModelFacts& models) {
  List problems = OutOfRange(config);
  CheckRules(config, problems);
  CheckModel(config.model, models, problems);
  CheckBatch(config, world_size, problems);
  CheckUses(config, models, problems);
  for (Problem& problem : problems) {
    if (problem.value.empty()) problem.value = ValueOf(problem.flag, config);
  }
  const auto place = [](const Problem& problem) { return FindFlag(problem.flag) - Flags().data(); };
  std::stable_sort(problems.begin(), problems.end(),
                   [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  return problems;
}

void RequireValid(const Config& config, int world_size, const ModelFacts& models) {
  const std::vector<Problem> problems = Problems(config, world_size, models);
  if (!problems.empty()) throw UsageError(Describe(problems));
}

}  // namespace dtrain::config
