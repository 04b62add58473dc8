// Checks first the ranges of the table, flag by flag, then the rules between flags, one small function per concern. A
// rule reports nothing if its flags are out of range, so that one mistake gives one line.
#include "trainer/config/problems.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "data/command_line/nearest_name.h"
#include "data/pipeline/size_schedule.h"
#include "data/whole_number.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/elastic.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/config/step_range.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using command_line::DidYouMean;
using List = std::vector<Problem>;

void CheckRanges(const Config& config, List& problems) {
  for (const Flag& flag : Flags()) {
    const Value value = flag.get(config);
    if (flag.limits.Allow(value)) continue;
    const auto* text = std::get_if<std::string>(&value);
    const std::string hint = text ? DidYouMean(*text, flag.limits.choices) : "";
    problems.push_back({.flag = flag.name,
                        .value = text && text->empty() ? "\"\"" : ToText(value),
                        .expected = Expected(flag.kind, flag.limits),
                        .hint = hint});
  }
}

void CheckWeights(const Config& config, List& problems) {
  const std::string& weights = config.run.weights;
  const bool is_file = !config.model.init_weights.empty();
  if (weights == "auto" || weights == "last" || (weights == "ema" && is_file))
    return;  // a file of torch.save may have an average, too
  if (config.run.mode == "train") {
    problems.push_back({.flag = "weights",
                        .value = weights,
                        .expected = "--mode=eval or predict with it",
                        .hint = "training always continues from the last state"});
  } else if (is_file) {
    problems.push_back({.flag = "weights",
                        .value = weights,
                        .expected = "no --init_weights with it",
                        .hint = "only a run keeps its best weights"});
  }
}

void CheckPredictions(const Config& config, List& problems) {
  const std::string& file = config.run.predictions;
  if (file.empty()) return;
  if (!file.ends_with(".csv") && !file.ends_with(".jsonl")) {
    problems.push_back({.flag = "predictions", .value = file, .expected = "FILE.csv or FILE.jsonl"});
  } else if (config.run.mode != "eval") {
    problems.push_back({.flag = "predictions",
                        .value = file,
                        .expected = "--mode=eval with it",
                        .hint = "--mode=predict has --output=FILE"});
  }
}

void CheckFeatures(const RunConfig& run, List& problems) {
  if (run.features.empty()) return;
  if (!run.features.ends_with(".npy") && !run.features.ends_with(".safetensors")) {
    problems.push_back({"features", run.features, "FILE.npy or FILE.safetensors", ""});
  } else if (run.mode != "predict") {
    problems.push_back({"features", run.features, "--mode=predict with it", "no other mode computes them"});
  } else if (!run.output.empty()) {
    problems.push_back({"features", run.features, "no --output with it", "predict in a command of its own"});
  }
}

void CheckSaves(const RunConfig& run, List& problems) {
  const std::string& text = run.save_every_seconds;
  const std::optional<double> seconds = NumberFrom(text);
  if (text == "auto" || (seconds && std::isfinite(*seconds) && *seconds >= 0)) return;
  problems.push_back({.flag = "save_every_seconds",
                      .value = text.empty() ? "\"\"" : text,
                      .expected = "auto, or a finite number, 0 or more"});
}

void CheckRun(const Config& config, List& problems) {
  CheckWeights(config, problems);
  CheckSaves(config.run, problems);
  if (config.run.resume == "last" && !config.run.dir.empty()) {
    problems.push_back({.flag = "resume",
                        .value = "last",
                        .expected = "no --run_dir with it",
                        .hint = "last means the newest run in runs/; use auto for this run"});
  }
  CheckPredictions(config, problems);
  CheckFeatures(config.run, problems);
  if (config.run.mode == "predict") {
    const std::string why = "--mode=predict reads images or tensors and writes the model's predictions";
    if (config.run.input.empty())
      problems.push_back({.flag = "input", .expected = "images, or a safetensors file", .hint = why});
    if (config.run.output.empty() && config.run.features.empty()) {
      problems.push_back({.flag = "output", .expected = "FILE.csv or FILE.jsonl, or a safetensors file", .hint = why});
    }
    return;
  }
  if (config.run.mode == "export") {
    const std::string why = "--mode=export reads weights and writes them for other programs";
    if (config.run.input.empty())
      problems.push_back({.flag = "input", .expected = "a run's folder or a file of weights", .hint = why});
    if (config.run.output.empty()) {
      problems.push_back({.flag = "output", .expected = "FILE.safetensors, FILE.pt or a folder", .hint = why});
    }
    return;
  }
  if (config.data.dir.empty() && config.data.format != "synthetic") {
    problems.push_back(
        {.flag = "data_dir", .expected = "a folder with data", .hint = "--data_format=synthetic needs none"});
  }
}

void CheckData(const DataConfig& config, List& problems) {
  std::vector<std::string> splits = ValSplits(config);
  std::sort(splits.begin(), splits.end());
  if (splits.front().empty() || std::adjacent_find(splits.begin(), splits.end()) != splits.end()) {
    problems.push_back({.flag = "val_split",
                        .value = config.val_split.empty() ? "\"\"" : config.val_split,
                        .expected = "one name, or different names with commas between them",
                        .hint = "as in valid,test"});
  }
  const std::string& text = config.label_offset;
  const std::optional<int64_t> offset = data::WholeNumber(text);
  if (text == "auto" || (offset && *offset >= 0 && *offset <= 1'000'000'000)) return;
  problems.push_back({.flag = "label_offset",
                      .value = text.empty() ? "\"\"" : text,
                      .expected = "auto, or a whole number, 0 to 1000000000"});
}

void CheckImage(const ImageConfig& image, List& problems) {
  for (const auto& [flag, numbers] : {std::pair{"mean", &image.mean}, std::pair{"std", &image.std}}) {
    if (numbers->size() == 3) continue;
    const std::string value = numbers->empty() ? "\"\"" : ToText(*numbers);
    problems.push_back({.flag = flag,
                        .value = value,
                        .expected = "three numbers with commas between them",
                        .hint = "one each for red, green and blue"});
  }
  const std::vector<double>& jitter = image.color_jitter;
  if ((jitter.size() != 1 && jitter.size() != 3 && jitter.size() != 4) || (jitter.size() == 4 && jitter[3] > 0.5)) {
    problems.push_back({.flag = "color_jitter",
                        .value = ToText(jitter),
                        .expected = "one, three or four numbers, the fourth 0.5 or less",
                        .hint = "brightness, contrast, saturation and hue"});
  }
  for (const auto& [flag, range] :
       {std::pair{"crop_scale", &image.crop_scale}, std::pair{"crop_ratio", &image.crop_ratio}}) {
    if (range->size() == 2 && range->front() > 0 && range->front() <= range->back()) continue;
    problems.push_back({.flag = flag,
                        .value = range->empty() ? "\"\"" : ToText(*range),
                        .expected = "two numbers above 0, the first not greater than the second",
                        .hint = "for example " + ToText(FindFlag(flag)->get(Config()))});
  }
  const std::string needing_crops = FlagsThatNeedCrops(image);
  if (image.augment == "none" && !needing_crops.empty()) {
    problems.push_back({.flag = "augment",
                        .value = "none",
                        .expected = "basic or more with " + needing_crops,
                        .hint = "these effects are applied to random crops"});
  }
  const int64_t side = EvalImageSize(image);
  if (image.eval_resize > 0 && image.eval_resize < side) {
    problems.push_back({.flag = "eval_resize",
                        .value = std::to_string(image.eval_resize),
                        .expected = (image.eval_size > 0 ? "--eval_image_size (" : "--image_size (") +
                                    std::to_string(side) + ") or more, or 0",
                        .hint = "the central crop cannot be larger than the image"});
  }
}

void CheckSizeSchedule(const Config& config, List& problems) {
  const std::string& text = config.image.size_schedule;
  const auto schedule = data::ParseSizeSchedule(text);
  if (!schedule) {
    problems.push_back({.flag = "image_size_schedule",
                        .value = text,
                        .expected = "EPOCH:SIZE,..., epochs ascending from 0, sizes 1 to 8192",
                        .hint = "as in 0:160,6:176,12:192"});
  } else if (!schedule->empty() && static_cast<double>(schedule->back().epoch) >= config.batch.epochs) {
    problems.push_back({.flag = "image_size_schedule",
                        .value = text,
                        .expected = "epochs below --epochs (" + ToText(Value(config.batch.epochs)) + ")",
                        .hint = "epoch " + std::to_string(schedule->back().epoch) + " would never be reached"});
  }
}

void CheckText(const Config& config, List& problems) {
  const TextConfig& text = config.text;
  constexpr int64_t kSmallestVocabulary = 5;  // <s>, <pad>, </s>, <unk> and <mask>
  if (text.vocab_size > 0 && text.vocab_size < kSmallestVocabulary) {
    problems.push_back({.flag = "vocab_size",
                        .value = std::to_string(text.vocab_size),
                        .expected = std::to_string(kSmallestVocabulary) + " or more, or 0",
                        .hint = "<s>, <pad>, </s>, <unk> and <mask> are part of every vocabulary"});
  }
  if (text.max_tokens > 0 && text.max_tokens < text.tokens_per_sample) {
    problems.push_back(
        {.flag = "max_tokens",
         .value = std::to_string(text.max_tokens),
         .expected = "--tokens_per_sample (" + std::to_string(text.tokens_per_sample) + ") or more, or 0",
         .hint = "a batch must have room for at least one block"});
  }
  if (text.max_tokens > 0 && config.batch.global_batch_size) {
    problems.push_back({.flag = "global_batch_size",
                        .value = std::to_string(*config.batch.global_batch_size),
                        .expected = "--grad_accum_steps instead, with --max_tokens",
                        .hint = "with a budget of tokens, the number of blocks differs from batch to batch"});
  }
  if (!config.model.config_file.empty() && config.model.name != "roberta") {
    problems.push_back({.flag = "model_config",
                        .value = config.model.config_file,
                        .expected = "--model=roberta with it",
                        .hint = "--model=" + config.model.name + " defines its own shape"});
  }
}

void CheckModel(const ModelConfig& model, const std::vector<std::string>& names, List& problems) {
  if (names.empty() || std::find(names.begin(), names.end(), model.name) != names.end()) return;
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : " | ") + name;
  problems.push_back({.flag = "model",
                      .value = model.name.empty() ? "\"\"" : model.name,
                      .expected = "one of " + known,
                      .hint = DidYouMean(model.name, names)});
}

void CheckBatch(const Config& config, int world_size, List& problems) {
  const BatchConfig& batch = config.batch;
  for (const char* name : {"batch_size", "global_batch_size", "grad_accum_steps", "elastic_shards"}) {
    const Flag* flag = FindFlag(name);
    if (!flag->limits.Allow(flag->get(config))) return;
  }
  CheckElastic(config, world_size, problems);
  if (IsElastic(config)) return;
  if (const auto problem = BatchMistake(batch, world_size)) problems.push_back(*problem);
}

std::string NumberText(double number) { return ToText(Value(number)); }

void CheckOptimizer(const OptimizerConfig& optimizer, List& problems) {
  if (optimizer.nesterov && optimizer.momentum == 0) {
    problems.push_back({.flag = "nesterov",
                        .value = "true",
                        .expected = "--momentum above 0 with it",
                        .hint = "use --nonesterov, or --momentum=0.9"});
  }
  if (optimizer.nesterov && (optimizer.name == "lamb" || optimizer.name == "rmsprop_tf")) {
    problems.push_back({.flag = "nesterov",
                        .value = "true",
                        .expected = "--optimizer=sgd or lars with it",
                        .hint = optimizer.name + " does not support it"});
  }
  if (optimizer.lars_clip && optimizer.name != "lars") {
    problems.push_back({.flag = "lars_clip",
                        .value = "true",
                        .expected = "--optimizer=lars with it",
                        .hint = "only lars gives each layer a rate"});
  }
  if (!optimizer.lr && (optimizer.name == "lars" || optimizer.name == "rmsprop_tf")) {
    problems.push_back({.flag = "lr",
                        .expected = "a peak learning rate with --optimizer=" + optimizer.name,
                        .hint = "no default suits most runs; see the examples in scripts/recipes"});
  }
  if (optimizer.adam_betas.size() != 2) {
    const std::string value = optimizer.adam_betas.empty() ? "\"\"" : ToText(optimizer.adam_betas);
    problems.push_back({.flag = "adam_betas",
                        .value = value,
                        .expected = "two numbers with a comma between them",
                        .hint = "such as 0.9,0.98"});
  }
}

void CheckWarmup(const ScheduleConfig& schedule, List& problems) {
  if (schedule.warmup_epochs > 0 && schedule.warmup_steps) {
    problems.push_back({.flag = "warmup_steps",
                        .value = std::to_string(*schedule.warmup_steps),
                        .expected = "no value with --warmup_epochs=" + NumberText(schedule.warmup_epochs),
                        .hint = "give the warmup either in epochs or in steps"});
  } else if (schedule.warmup_steps && schedule.schedule_steps && *schedule.warmup_steps > *schedule.schedule_steps) {
    problems.push_back({.flag = "warmup_steps",
                        .value = std::to_string(*schedule.warmup_steps),
                        .expected = "--schedule_steps (" + std::to_string(*schedule.schedule_steps) + ") or less",
                        .hint = "the warmup would not end"});
  }
}

void CheckDecaySteps(const ScheduleConfig& schedule, List& problems) {
  const std::vector<double>& epochs = schedule.decay_epochs;
  const bool ascends = std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal<>()) == epochs.end();
  if (epochs.size() == 1 || (epochs.size() > 1 && ascends && schedule.name == "step")) return;
  problems.push_back({.flag = "lr_decay_epochs",
                      .value = ToText(epochs),
                      .expected = "one number, or with --lr_schedule=step several that ascend",
                      .hint = "as in --lr_decay_epochs=30,60,80"});
}

// Early stopping is decided by evaluations, so there must be some.
void CheckEarlyStop(const RunConfig& run, List& problems) {
  const bool evaluates = run.eval_every_epochs != 0 || run.eval_every_steps != 0;
  if (run.mode != "train" || !(run.stop_after_epochs_without_gain > 0) || evaluates) return;
  problems.push_back({.flag = "stop_after_epochs_without_gain",
                      .value = NumberText(run.stop_after_epochs_without_gain),
                      .expected = "--eval_every_epochs or --eval_every_steps above 0 with it",
                      .hint = "the gain is measured by evaluations"});
}

// A validation split is cut from the training split only if none was named.
void CheckValFraction(const Config& config, List& problems) {
  const DataConfig& data = config.data;
  if (!(data.val_fraction > 0) || config.run.mode != "train") return;
  if (WasGiven(config, "val_split")) {
    problems.push_back({.flag = "val_fraction",
                        .value = NumberText(data.val_fraction),
                        .expected = "no --val_split with it",
                        .hint = "it makes a validation split from a part of the training split, if there is none"});
  }
  if (data.format == "synthetic") {
    problems.push_back({.flag = "val_fraction",
                        .value = NumberText(data.val_fraction),
                        .expected = "other data than --data_format=synthetic",
                        .hint = "synthetic samples are random, so there is nothing to validate"});
  }
}

// Refuses flags of a moving average that is not kept.
void CheckAverage(const Config& config, List& problems) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.ema_decay == 0 && optimizer.ema_start != OptimizerConfig().ema_start) {
    problems.push_back({.flag = "ema_start",
                        .value = optimizer.ema_start,
                        .expected = "--ema_decay with it",
                        .hint = "without it no average of the weights is kept"});
  }
  if (optimizer.ema_decay == 0 && optimizer.ema_every != 1) {
    problems.push_back({.flag = "ema_every",
                        .value = std::to_string(optimizer.ema_every),
                        .expected = "--ema_decay with it",
                        .hint = "without it no average of the weights is kept"});
  }
}

void CheckSpikes(const Config& config, List& problems) {
  const OptimizerConfig& optimizer = config.optimizer;
  const auto needs_factor = [&](const char* flag, const std::string& value) {
    problems.push_back({.flag = flag,
                        .value = value,
                        .expected = "--spike_factor with it",
                        .hint = "without it losses are not watched; 6 is rare in a healthy run"});
  };
  if (optimizer.spike_factor == 0 && optimizer.on_spike != "log") needs_factor("on_spike", optimizer.on_spike);
  const bool has_other_window = optimizer.spike_window != OptimizerConfig().spike_window;
  if (optimizer.spike_factor == 0 && !WasGiven(config, "spike_factor") && has_other_window) {
    needs_factor("spike_window", std::to_string(optimizer.spike_window));
  }
  if (optimizer.on_spike == "rewind" && !config.report.profile_steps.empty()) {
    problems.push_back({.flag = "profile_steps",
                        .value = config.report.profile_steps,
                        .expected = "no --on_spike=rewind with it",
                        .hint = "a rewind would pass these steps twice"});
  }
}

// A batch of one image has nothing to mix it with.
void CheckMixing(const Config& config, List& problems) {
  const char* flag = config.image.mixup > 0 ? "mixup" : config.image.cutmix > 0 ? "cutmix" : nullptr;
  if (flag == nullptr || config.run.mode != "train" || config.batch.batch_size.value_or(2) != 1) return;
  problems.push_back({.flag = flag,
                      .value = NumberText(config.image.mixup > 0 ? config.image.mixup : config.image.cutmix),
                      .expected = "--batch_size of 2 or more with it",
                      .hint = "an image is mixed with another one of its batch"});
}

void CheckClassWeights(const Config& config, List& problems) {
  const std::string& weights = config.optimizer.class_weights;
  if (weights == "none") return;
  if (weights.empty())
    problems.push_back(
        {.flag = "class_weights", .value = "\"\"", .expected = "none, inverse, sqrt, effective or a file"});
  const bool mixes = config.image.mixup > 0 || config.image.cutmix > 0;
  if (config.optimizer.loss == "ce" && !mixes) return;
  problems.push_back({.flag = "class_weights",
                      .value = weights,
                      .expected = "--loss=ce without --mixup and --cutmix",
                      .hint = "the weights are those of the cross entropy of single classes"});
}

void CheckSampling(const Config& config, List& problems) {
  if (config.data.sampling != "balanced") return;
  if (config.data.shuffle != "global") {
    problems.push_back({.flag = "shuffle",
                        .value = config.data.shuffle,
                        .expected = "global with --sampling=balanced",
                        .hint = "the samples of small classes are repeated all over an epoch"});
  }
  if (config.text.max_tokens > 0) {
    problems.push_back({"max_tokens", std::to_string(config.text.max_tokens), "0 with --sampling=balanced",
                        "batches of a budget are the same in all epochs; --batch_size counts sentences"});
  }
  const std::string& weights = config.optimizer.class_weights;
  if (weights != "inverse" && weights != "sqrt" && weights != "effective") return;
  problems.push_back({.flag = "class_weights",
                      .value = weights,
                      .expected = "none or a file with --sampling=balanced",
                      .hint = "either of them makes up for unequal classes; both would favour the small ones"});
}

void CheckMemoryEfficientFp16(const Config& config, List& problems) {
  if (!config.precision.memory_efficient_fp16) return;
  const auto refuse = [&problems](const std::string& expected, const std::string& why) {
    problems.push_back({.flag = "memory_efficient_fp16", .value = "true", .expected = expected, .hint = why});
  };
  const std::string& precision = config.precision.name;
  const std::string& optimizer = config.optimizer.name;
  const bool is_fp16 = precision == "fp16" || precision == "fp32";  // fp32 is the default if no precision was given
  if (!is_fp16) refuse("--precision=fp16 with it", "--precision=" + precision + " is given");
  if (optimizer != "adam" && optimizer != "adamw" && optimizer != "fairseq_adam") {
    refuse("--optimizer=adam, adamw or fairseq_adam with it", "--optimizer=" + optimizer + " keeps its state in fp32");
  }
  if (config.optimizer.ema_decay > 0) {
    refuse("no --ema_decay with it", "half precision is too coarse for the small updates of an average");
  }
}

void CheckPrecision(const PrecisionConfig& precision, List& problems) {
  if (precision.loss_scale == "dynamic") return;
  const std::optional<double> scale = NumberFrom(precision.loss_scale);
  if (scale && *scale > 0 && *scale <= 3e38) return;  // float32 holds it
  problems.push_back({.flag = "loss_scale",
                      .value = precision.loss_scale,
                      .expected = "dynamic, or a number above 0, at most 3e38",
                      .hint = "for example 1024"});
}

void CheckRanks(const RanksConfig& ranks, List& problems) {
  const std::string& text = ranks.nproc_per_node;
  if (!text.empty() && text != "auto") {
    const std::optional<int64_t> count = data::WholeNumber(text);
    if (!count || *count < 1 || *count > 1024) {
      problems.push_back({.flag = "nproc_per_node", .value = text, .expected = "auto, or a whole number, 1 to 1024"});
    }
  }
  if (ranks.rank && ranks.world_size && *ranks.world_size > 0 && *ranks.rank >= *ranks.world_size) {
    problems.push_back({.flag = "rank",
                        .value = std::to_string(*ranks.rank),
                        .expected = "less than --world_size (" + std::to_string(*ranks.world_size) + ")",
                        .hint = "ranks count from 0"});
  }
}

bool IsIpAddress(const std::string& text) {
  in6_addr address{};  // also large enough for an IPv4 address
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

void CheckReport(const ReportConfig& report, List& problems) {
  if (!report.profile_steps.empty() && !ParseStepRange(report.profile_steps)) {
    problems.push_back({.flag = "profile_steps",
                        .value = report.profile_steps,
                        .expected = "FIRST:LAST, 1 or more, FIRST not after LAST",
                        .hint = "a trace grows by megabytes a step: profile a few, as in --profile_steps=10:12"});
  }
  if (!IsIpAddress(report.metrics_address)) {
    problems.push_back({.flag = "metrics_address",
                        .value = report.metrics_address,
                        .expected = "an IPv4 or IPv6 address of this machine",
                        .hint = "127.0.0.1 for this machine alone, 0.0.0.0 for everyone who can reach it"});
  }
}

}  // namespace

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

std::vector<Problem> Problems(const Config& config, int world_size, const ModelFacts& models) {
  List problems;
  CheckRanges(config, problems);
  CheckRun(config, problems);
  CheckData(config.data, problems);
  CheckImage(config.image, problems);
  CheckSizeSchedule(config, problems);
  CheckText(config, problems);
  CheckModel(config.model, models.names, problems);
  CheckBatch(config, world_size, problems);
  CheckOptimizer(config.optimizer, problems);
  CheckWarmup(config.schedule, problems);
  CheckDecaySteps(config.schedule, problems);
  CheckAverage(config, problems);
  CheckSpikes(config, problems);
  CheckEarlyStop(config.run, problems);
  CheckValFraction(config, problems);
  CheckMixing(config, problems);
  CheckClassWeights(config, problems);
  CheckSampling(config, problems);
  CheckPrecision(config.precision, problems);
  CheckMemoryEfficientFp16(config, problems);
  CheckRanks(config.ranks, problems);
  CheckReport(config.report, problems);
  CheckUses(config, models, problems);

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
