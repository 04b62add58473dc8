// The rules between flags, which name them, one small function per concern; flag_values.cc has those that the table's
// rows tell. A rule reports nothing if its flags are out of range, so that one mistake gives one line. Each problem is
// one line, because log collectors split texts at line ends.
#include "trainer/config/problems.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "data/command_line/parser.h"
#include "data/formats/table_writer.h"
#include "data/joined.h"
#include "data/outputs.h"
#include "data/pipeline/sampler.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using command_line::DidYouMean;
using List = std::vector<Problem>;

// A rule between flags, or on a value that no range describes: the flag that the user is told to change, whether it is
// broken, and what would be right.
struct Rule {
  const char* flag;
  bool broken;
  std::string expected, hint = {};
  std::string value = {};  // empty: that of the flag
};
using Rules = std::vector<Rule>;

Rules ModeRules(const Config& config) {
  const RunConfig& run = config.run;
  const bool trains = run.mode == "train", predicts = run.mode == "predict", exports = run.mode == "export";
  const bool is_file = !config.model.init_weights.empty() && !data::IsRun(config.model.init_weights);
  // A file of torch.save may have an average, too.
  const bool has_weights = run.weights == "auto" || run.weights == "last" || (run.weights == "ema" && is_file);
  const bool is_table = data::TableWriterOf(run.predictions) != nullptr;
  const bool is_output = data::TableWriterOf(run.output) != nullptr || run.output.ends_with(".safetensors");
  const bool is_array = run.features.ends_with(".npy") || run.features.ends_with(".safetensors");
  const std::string outputs = data::TableFiles() + ", or a safetensors file";
  const std::string prediction = "--mode=predict reads images, texts or tensors and writes the model's predictions";
  const std::string exporting = "--mode=export reads weights and writes them for other programs";
  return {
      {"weights", !has_weights && trains, "--mode=eval or predict with it",
       "training always continues from the last state"},
      {"weights", !has_weights && !trains && is_file, "no --init_weights with it", "only a run keeps its best weights"},
      {"predictions", !run.predictions.empty() && !is_table, data::TableFiles()},
      {"predictions", is_table && run.mode != "eval", "--mode=eval with it", "--mode=predict has --output=FILE"},
      {"features", !run.features.empty() && !is_array, "FILE.npy or FILE.safetensors"},
      {"features", is_array && !predicts, "--mode=predict with it", "no other mode computes them"},
      {"features", is_array && predicts && !run.output.empty(), "no --output with it",
       "predict in a command of its own"},
      {"input", predicts && run.input.empty(), "images, texts, or a safetensors file", prediction},
      {"output", predicts && !is_output && (!run.output.empty() || run.features.empty()), outputs, prediction},
      {"output", trains && !run.output.empty(), "--mode=eval, predict or export with it",
       "--run_dir names a run's folder"},
      {"input", exports && run.input.empty(), "a run's folder or a file of weights", exporting},
      {"output", exports && run.output.empty(), "FILE.safetensors, FILE.pt or a folder", exporting},
      {"data_dir",
       !predicts && !exports && config.data.dir.empty() && config.data.labels.empty() &&
           config.data.format != "synthetic",
       "a folder with data", "--data_format=synthetic needs none"},
  };
}

Rules RunRules(const Config& config) {
  const RunConfig& run = config.run;
  const std::optional<double> seconds = NumberFrom(run.save_every_seconds);
  const bool evaluates = run.eval_every_epochs != 0 || run.eval_every_steps != 0;
  return {
      {"resume", run.resume == "last" && !run.dir.empty(), "no --run_dir with it",
       "last means the newest run in runs/; use auto for this run"},
      {"save_every_seconds", run.save_every_seconds != "auto" && !(seconds && std::isfinite(*seconds) && *seconds >= 0),
       "auto, or a finite number, 0 or more"},
      {"stop_after_epochs_without_gain", run.mode == "train" && run.stop_after_epochs_without_gain > 0 && !evaluates,
       "--eval_every_epochs or --eval_every_steps above 0 with it", "the gain is measured by evaluations"},
  };
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < ' '; }

Rules DataRules(const Config& config) {
  const DataConfig& data = config.data;
  std::vector<std::string> splits = ValSplits(data);
  std::ranges::sort(splits);
  const bool repeats = std::ranges::adjacent_find(splits) != splits.end();
  const std::optional<int64_t> offset = data::WholeNumber(data.label_offset);
  const bool cuts_split = data.val_fraction > 0 && config.run.mode == "train";
  const bool balanced = data.sampling == "balanced";
  return {
      {"train_split", data.train_split.empty(), "the name of a split", "as in train"},
      {"val_split", splits.front().empty() || repeats, "one name, or different names with commas between them",
       "as in valid,test"},
      {"val_split", !data::IsUtf8(data.val_split) || std::ranges::any_of(data.val_split, IsControl),
       "names in UTF-8, without line feeds and the like", "TensorBoard and Prometheus take no others"},
      {"labels", !data.labels.empty() && data.format != "auto", "no --data_format with it",
       "the table names the images"},
      {"label_offset", data.label_offset != "auto" && !(offset && *offset >= 0 && *offset <= 1'000'000'000),
       "auto, or a whole number, 0 to 1000000000"},
      {"val_fraction", cuts_split && NamesValSplit(config), "no --val_split with it",
       "it makes a validation split from a part of the training split, if there is none"},
      {"val_fraction", cuts_split && data.format == "synthetic", "other data than --data_format=synthetic",
       "synthetic samples are random, so there is nothing to validate"},
      {"val_fold", !data.val_fold.empty() && !ParseFold(data.val_fold), "I/K with I from 1 to K, and K from 2 to 1000",
       "as in 1/5"},
      {"val_fold",
       !data.val_fold.empty() && (data.val_fraction > 0 || NamesValSplit(config) || data.format == "synthetic"),
       "neither --val_fraction nor --val_split nor synthetic data with it",
       "it makes a validation split from a part of the training split"},
      {"shuffle", balanced && data.shuffle != "global", "global with --sampling=balanced",
       "the samples of small classes are repeated all over an epoch"},
      {"max_tokens", balanced && config.text.max_tokens > 0, "0 with --sampling=balanced",
       "batches of a budget are the same in all epochs; --batch_size counts sentences"},
  };
}

bool IsColorJitter(const std::vector<double>& jitter) {
  return jitter.size() == 1 || jitter.size() == 3 || (jitter.size() == 4 && jitter[3] <= 0.5);
}

Rules ImageRules(const Config& config) {
  const ImageConfig& image = config.image;
  const std::string needing_crops = FlagsThatNeedCrops(config);
  const int64_t side = EvalImageSize(image);
  const bool mixes_up = image.mixup > 0;
  return {
      {"color_jitter", !IsColorJitter(image.color_jitter), "one, three or four numbers, the fourth 0.5 or less",
       "brightness, contrast, saturation and hue"},
      {"augment", image.augment == "none" && !needing_crops.empty(), "basic or more with " + needing_crops,
       "these effects are applied to random crops"},
      {"eval_resize", image.eval_resize > 0 && image.eval_resize < side,
       (image.eval_size > 0 ? "--eval_image_size (" : "--image_size (") + std::to_string(side) + ") or more, or 0",
       "the central crop cannot be larger than the image"},
      {mixes_up ? "mixup" : "cutmix",
       (mixes_up || image.cutmix > 0) && config.run.mode == "train" && config.batch.batch_size == 1,
       "--batch_size of 2 or more with it", "an image is mixed with another one of its batch"},
  };
}

Rules SizeScheduleRules(const Config& config) {
  const auto schedule = data::ParseSizeSchedule(config.image.size_schedule);
  const int64_t last_epoch = schedule && !schedule->empty() ? schedule->back().epoch : -1;
  return {
      {"image_size_schedule", !schedule, "EPOCH:SIZE,..., epochs ascending from 0, sizes 1 to 8192",
       "as in 0:160,6:176,12:192"},
      {"image_size_schedule", last_epoch >= 0 && static_cast<double>(last_epoch) >= config.batch.epochs,
       "epochs below --epochs (" + ToText(config.batch.epochs) + ")",
       "epoch " + std::to_string(last_epoch) + " would never be reached"},
  };
}

Rules TextRules(const Config& config) {
  const TextConfig& text = config.text;
  constexpr int64_t kSmallestVocabulary = 5;  // <s>, <pad>, </s>, <unk> and <mask>
  return {
      {"vocab_size", text.vocab_size > 0 && text.vocab_size < kSmallestVocabulary,
       std::to_string(kSmallestVocabulary) + " or more, or 0",
       "<s>, <pad>, </s>, <unk> and <mask> are part of every vocabulary"},
      {"max_tokens", text.max_tokens > 0 && text.max_tokens < text.tokens_per_sample,
       "--tokens_per_sample (" + std::to_string(text.tokens_per_sample) + ") or more, or 0",
       "a batch must have room for at least one block"},
      {"global_batch_size", text.max_tokens > 0 && config.batch.global_batch_size,
       "--grad_accum_steps instead, with --max_tokens",
       "with a budget of tokens, the number of blocks differs from batch to batch"},
  };
}

Rules OptimizerRules(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  const OptimizerFacts& facts = FactsOf(optimizer);
  const bool is_known = !facts.name.empty();
  // Recipes of sgd are tried with it by changing --optimizer alone.
  const bool is_plain_adam = facts.Takes("memory_efficient_fp16");
  return {
      {"nesterov", optimizer.nesterov && optimizer.momentum == 0, "--momentum above 0 with it",
       "use --nonesterov, or --momentum=0.9"},
      {"nesterov", optimizer.nesterov && is_known && !facts.Takes("nesterov") && !is_plain_adam,
       "--optimizer=" + OptimizersWith("nesterov") + " with it", optimizer.name + " does not support it"},
      {"lars_clip", optimizer.lars_clip && is_known && !facts.Takes("lars_clip"),
       "--optimizer=" + OptimizersWith("lars_clip") + " with it", "only lars gives each layer a rate"},
      {"lr", !optimizer.lr && is_known && !facts.rate, "a peak learning rate with --optimizer=" + optimizer.name,
       "no default suits most runs; see the examples in scripts/recipes"},
  };
}

Rules ScheduleRules(const Config& config) {
  const ScheduleConfig& schedule = config.schedule;
  const int64_t warmup = schedule.warmup_steps.value_or(0);
  const bool warms_up_twice = schedule.warmup_epochs > 0 && schedule.warmup_steps;
  const std::vector<double>& epochs = schedule.decay_epochs;
  const bool ascends = std::ranges::adjacent_find(epochs, std::greater_equal<>()) == epochs.end();
  return {
      {"warmup_steps", warms_up_twice, "no value with --warmup_epochs=" + ToText(schedule.warmup_epochs),
       "give the warmup either in epochs or in steps"},
      {"warmup_fraction", schedule.warmup_fraction > 0 && (schedule.warmup_epochs > 0 || schedule.warmup_steps),
       "neither --warmup_epochs nor --warmup_steps with it", "each of them is the length of the warmup"},
      {"warmup_steps", !warms_up_twice && schedule.schedule_steps && warmup > *schedule.schedule_steps,
       "--schedule_steps (" + std::to_string(schedule.schedule_steps.value_or(0)) + ") or less",
       "the warmup would not end"},
      {"lr_decay_epochs", epochs.empty() || (epochs.size() > 1 && (!ascends || schedule.name != "step")),
       "one number, or with --lr_schedule=step several that ascend", "as in --lr_decay_epochs=30,60,80"},
  };
}

Rules LossRules(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  const std::vector<std::string> losses = LossesOf(config.run.task);
  const TeacherConfig& teacher = config.teacher;
  return {
      {"loss",
       TaskHas(config.run.task, kImages) && !losses.empty() &&
           std::ranges::find(losses, optimizer.loss) == losses.end(),
       Joined(losses, " or ") + " with --task=" + config.run.task},
      {"num_classes", config.model.num_classes > 0 && TaskHas(config.run.task, kNumbers),
       "0 with --task=" + config.run.task, "the model has an output for each column of numbers"},
      {"distill_temperature",
       !teacher.weights.empty() && teacher.distill == "hard" && teacher.temperature != TeacherConfig().temperature,
       "--distill=soft with it", "the likeliest class is the same at every temperature"},
  };
}

Rules ClassWeightRules(const Config& config) {
  const std::string& weights = config.optimizer.class_weights;
  const bool mixes = config.image.mixup > 0 || config.image.cutmix > 0;
  // The weights of several labels are for any targets.
  const bool is_of_classes = config.run.task == "auto" || TaskHas(config.run.task, kClasses);
  const bool from_counts = weights == "inverse" || weights == "sqrt" || weights == "effective";
  return {
      {"class_weights", weights.empty(), "none, inverse, sqrt, effective or a file"},
      {"class_weights", weights != "none" && is_of_classes && (config.optimizer.loss != "ce" || mixes),
       "--loss=ce without --mixup and --cutmix", "the weights are those of the cross entropy of single classes"},
      {"class_weights", config.data.sampling == "balanced" && from_counts, "none or a file with --sampling=balanced",
       "either of them makes up for unequal classes; both would favour the small ones"},
  };
}

Rules PrecisionRules(const Config& config) {
  const std::string &precision = config.precision.name, &optimizer = config.optimizer.name;
  const bool saves_memory = config.precision.memory_efficient_fp16;
  const bool is_fp16 = precision == "fp16" || precision == "fp32";  // fp32 is the default if no precision was given
  const std::optional<double> scale = NumberFrom(config.precision.loss_scale);
  const bool is_scale = scale && *scale > 0 && *scale <= 3e38;  // float32 holds it
  return {
      {"loss_scale", config.precision.loss_scale != "dynamic" && !is_scale,
       "dynamic, or a number above 0, at most 3e38", "for example 1024"},
      {"memory_efficient_fp16", saves_memory && !is_fp16, "--precision=fp16 with it",
       "--precision=" + precision + " is given"},
      {"memory_efficient_fp16", saves_memory && !FactsOf(config.optimizer).Takes("memory_efficient_fp16"),
       "--optimizer=" + OptimizersWith("memory_efficient_fp16") + " with it",
       "--optimizer=" + optimizer + " keeps its state in fp32"},
      {"memory_efficient_fp16", saves_memory && config.optimizer.ema_decay > 0, "no --ema_decay with it",
       "half precision is too coarse for the small updates of an average"},
  };
}

bool IsIpAddress(const std::string& text) {
  in6_addr address{};  // also large enough for an IPv4 address
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool IsAddress(const std::string& path) { return path.find("://") != std::string::npos; }

// Whoever finds the launch has checked the flags of ranks (launch/launch.h).
Rules ReportRules(const Config& config) {
  const std::string place = "a place in this machine's file system";
  const std::string remedy = "mount the store (FSx, Mountpoint for S3), or copy the files to it afterwards";
  Rules rules = {
      {"profile_steps", !config.report.profile_steps.empty() && !ParseStepRange(config.report.profile_steps),
       "FIRST:LAST, 1 or more, FIRST not after LAST",
       "a trace grows by megabytes a step: profile a few, as in --profile_steps=10:12"},
      {"metrics_address", !IsIpAddress(config.report.metrics_address), "an IPv4 or IPv6 address of this machine",
       "127.0.0.1 for this machine alone, 0.0.0.0 for everyone who can reach it"},
  };
  for (const Flag& flag : Flags()) {
    if (flag.traits.path == data::PathUse::kWritten)
      rules.push_back({flag.name.c_str(), IsAddress(ToText(flag.get(config))), place, remedy});
  }
  return rules;
}

// Of --deterministic=elastic: nothing may add numbers in an order, or with a rounding, that depends on the ranks.
Rules ElasticRules(const Config& config, int world_size) {
  const BatchConfig& batch = config.batch;
  const std::string with = " with --deterministic=elastic";
  const bool has_budget = config.text.max_tokens > 0, has_batch = batch.global_batch_size.has_value();
  const bool is_divided = has_batch && !has_budget;  // else a shard is what fits into the budget
  const bool mixes = config.image.mixup > 0 || config.image.cutmix > 0;
  const int64_t shards = ElasticShards(config), whole = batch.global_batch_size.value_or(0), least = mixes ? 2 : 1;
  const int64_t smallest = whole / shards, largest = smallest + (whole % shards > 0 ? 1 : 0);
  const int64_t batch_size = batch.batch_size.value_or(largest);
  return {
      {"grad_accum_steps", batch.grad_accum_steps.value_or(1) != 1, "1" + with,
       "a rank computes its shards one after another; --elastic_shards makes them smaller"},
      {"grad_compression", config.ranks.grad_compression != "none", "none" + with,
       "gradients are added without rounding them to fewer digits"},
      {"sync_bn", config.ranks.sync_bn, "false" + with,
       "batch normalisation sees a shard, whatever the number of ranks; fewer --elastic_shards make it larger"},
      {"cuda_graphs", config.ranks.cuda_graphs == "on", "auto or off" + with, "its steps are not recorded"},
      {"global_batch_size", !has_batch && !has_budget, "a number" + with,
       "the batch must not depend on the number of ranks"},
      {"elastic_shards", (has_batch || has_budget) && config.run.mode == "train" && shards < world_size,
       "at least the number of ranks (" + std::to_string(world_size) + ")",
       "each rank computes at least one shard of the global batch", std::to_string(shards)},
      {"elastic_shards", is_divided && smallest < least, "at most " + std::to_string(whole / least),
       mixes ? "an image is mixed with another one of its shard" : "no shard may be empty", std::to_string(shards)},
      {"batch_size", is_divided && smallest >= least && largest > batch_size,
       std::to_string(largest) + " or more, the samples of a shard",
       "or --elastic_shards=" + std::to_string((whole - 1) / std::max<int64_t>(1, batch_size) + 1)},
  };
}

void Check(const Rules& rules, List& problems) {
  for (const auto& [flag, broken, expected, hint, value] : rules) {
    if (broken) problems.push_back({.flag = flag, .value = value, .expected = expected, .hint = hint});
  }
}

void CheckRules(const Config& config, List& problems) {
  for (const auto& rules_of : {ModeRules, RunRules, DataRules, ImageRules, SizeScheduleRules, TextRules, OptimizerRules,
                               ScheduleRules, LossRules, ClassWeightRules, PrecisionRules, ReportRules}) {
    Check(rules_of(config), problems);
  }
}

void CheckModel(const ModelConfig& model, const ModelFacts& facts, List& problems) {
  const std::vector<std::string>&names = facts.names, &of_any_shape = facts.of_any_shape;
  const bool is_unknown = !names.empty() && std::ranges::find(names, model.name) == names.end();
  if (!is_unknown && !model.config_file.empty() && std::ranges::find(of_any_shape, model.name) == of_any_shape.end()) {
    problems.push_back({.flag = "model_config",
                        .expected = "--model=" + Joined(of_any_shape, " or ") + " with it",
                        .hint = "--model=" + model.name + " defines its own shape"});
  }
  if (!is_unknown) return;
  problems.push_back(
      {.flag = "model", .expected = "one of " + Joined(names, " | "), .hint = DidYouMean(model.name, names)});
}

void CheckBatch(const Config& config, int world_size, List& problems) {
  if (IsOfOneRank(config.run)) return;
  for (const char* name : {"batch_size", "global_batch_size", "grad_accum_steps", "elastic_shards"}) {
    const Flag* flag = FindFlag(name);
    if (!flag->limits.Allow(flag->get(config))) return;
  }
  if (IsElastic(config)) return Check(ElasticRules(config, world_size), problems);
  if (const auto problem = BatchMistake(config.batch, world_size)) problems.push_back(*problem);
}

}  // namespace

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

std::vector<Problem> Problems(const Config& config, int world_size, const ModelFacts& models) {
  List problems = OutOfRange(config);
  CheckRules(config, problems);
  CheckModel(config.model, models, problems);
  CheckBatch(config, world_size, problems);
  CheckCompanions(config, problems);
  CheckUses(config, models, problems);
  for (Problem& problem : problems) {
    if (problem.value.empty()) problem.value = ShownValue(*FindFlag(problem.flag), config);
  }
  const auto place = [](const Problem& problem) { return FindFlag(problem.flag) - Flags().data(); };
  std::ranges::stable_sort(problems, [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  return problems;
}

void RequireValid(const Config& config, int world_size, const ModelFacts& models) {
  const std::vector<Problem> problems = Problems(config, world_size, models);
  if (!problems.empty()) throw UsageError(Describe(problems));
}

}  // namespace dtrain::config
