// Values that depend on the data (classes, steps) come later, with the plan.
#include "trainer/config/resolve.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "data/whole_number.h"
#include "trainer/config/aliases.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

constexpr double kCentreCropFraction = 0.875;  // 224 of 256, as ImageNet is evaluated

// Returns two whole numbers with a separator between them, if the first is at least 1 and not above the second.
std::optional<std::pair<int64_t, int64_t>> Ascending(std::string_view text, char separator) {
  const size_t between = text.find(separator);
  if (between == std::string::npos) return std::nullopt;
  const auto first = data::WholeNumber(text.substr(0, between)), last = data::WholeNumber(text.substr(between + 1));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

// The peak learning rate if --lr was not given, which --lr_base_batch may scale later.
double DefaultLearningRate(const OptimizerConfig& optimizer, int64_t global_batch_size) {
  const OptimizerFacts& facts = FactsOf(optimizer);
  const double rate = facts.rate.value_or(0);
  if (facts.batch_of_rate == 0 || optimizer.lr_base_batch > 0) return rate;
  return rate * static_cast<double>(global_batch_size) / facts.batch_of_rate;
}

}  // namespace

std::optional<StepRange> ParseStepRange(const std::string& text) {
  const auto range = Ascending(text, ':');
  return range ? std::optional(StepRange{range->first, range->second}) : std::nullopt;
}

bool IsOfOneRank(const RunConfig& run) { return run.mode == "predict" || run.mode == "export"; }

double LearningRateFactor(const OptimizerConfig& optimizer, int64_t global_batch_size) {
  if (optimizer.lr_base_batch == 0) return 1;
  const double quotient = static_cast<double>(global_batch_size) / optimizer.lr_base_batch;
  return optimizer.lr_scaling == "sqrt" ? std::sqrt(quotient) : quotient;
}

double EmaDecay(const OptimizerConfig& optimizer, double epochs, int64_t global_batch_size) {
  if (optimizer.ema_scaling != "torchvision" || optimizer.ema_decay == 0) return optimizer.ema_decay;
  const double factor = static_cast<double>(global_batch_size * optimizer.ema_every) / epochs;
  return 1 - std::min(1.0, (1 - optimizer.ema_decay) * factor);
}

std::vector<std::string> ValSplits(const DataConfig& data) {
  std::vector<std::string> names;
  std::istringstream parts(data.val_split + ",");
  for (std::string name; std::getline(parts, name, ',');) names.push_back(name);
  return names;
}

bool NamesValSplit(const Config& config) {
  return WasGiven(config, "val_split") && config.data.val_split != DataConfig().val_split;
}

std::optional<std::pair<int64_t, int64_t>> ParseFold(const std::string& text) {
  constexpr int64_t kMost = 1000;
  const auto fold = Ascending(text, '/');
  return fold && fold->second >= 2 && fold->second <= kMost ? fold : std::nullopt;
}

int64_t EvalImageSize(const ImageConfig& image) { return image.eval_size > 0 ? image.eval_size : image.size; }

std::string EvalInterpolation(const ImageConfig& image) {
  if (image.eval_interpolation != "auto") return image.eval_interpolation;
  return image.interpolation == "random" ? "bicubic" : image.interpolation;
}

int64_t DefaultEvalResize(int64_t image_size) {
  return std::lround(static_cast<double>(image_size) / kCentreCropFraction);
}

std::string ResolveForDevice(Config& config, bool has_gpu) {
  const bool on_gpu = has_gpu && config.ranks.backend != "gloo";
  if (TaskHas(config.run.task, kSentences) && !on_gpu && !WasGiven(config, "unpad")) config.text.unpad = true;
  const std::vector<std::string> losses = LossesOf(config.run.task);
  const bool is_of_task = std::ranges::find(losses, config.optimizer.loss) != losses.end();
  if (!losses.empty() && !is_of_task && !WasGiven(config, "loss")) config.optimizer.loss = losses.front();
  std::string& precision = config.precision.name;
  if (precision != "amp") return "";
  precision = on_gpu ? "fp16" : "bf16";
  return on_gpu ? "" : "mixed precision on a CPU is bf16; --precision=fp16 takes fp16 all the same";
}

void Resolve(Config& config, int world_size) {
  if (config.text.max_tokens > 0 && !config.batch.batch_size && !config.batch.global_batch_size) {
    config.batch.batch_size = std::clamp<int64_t>(config.text.max_tokens / 2, 1, kMostSamples);  // max_tokens decides
  }
  if (IsElastic(config)) config.batch.elastic_shards = ElasticShards(config);
  const BatchSizes sizes = ResolveBatch(config.batch, world_size);
  config.batch.batch_size = sizes.batch_size;
  config.batch.grad_accum_steps = sizes.grad_accum_steps;
  config.batch.global_batch_size = sizes.global_batch_size;
  OptimizerConfig& optimizer = config.optimizer;
  for (const std::string_view word : WordsOf(FactsOf(optimizer).defaults)) {
    const std::string name = FlagName({std::string(word), ""});
    if (!WasGiven(config, name)) Set(*FindFlag(name), std::string(word.substr(word.find('=') + 1)), config);
  }
  if (!optimizer.lr) optimizer.lr = DefaultLearningRate(optimizer, sizes.global_batch_size);
  if (config.precision.memory_efficient_fp16) config.precision.name = "fp16";
  if (config.image.eval_resize == 0) config.image.eval_resize = DefaultEvalResize(EvalImageSize(config.image));
}

}  // namespace dtrain::config
