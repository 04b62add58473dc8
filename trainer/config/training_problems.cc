#include "trainer/config/training_problems.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

using List = std::vector<Problem>;

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
  if (optimizer.spike_factor == 0 && optimizer.on_spike != "log") {
    problems.push_back({.flag = "on_spike",
                        .value = optimizer.on_spike,
                        .expected = "--spike_factor with it",
                        .hint = "without it losses are not watched; 6 is rare in a healthy run"});
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

}  // namespace

void CheckTraining(const Config& config, std::vector<Problem>& problems) {
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
}

}  // namespace dtrain::config
