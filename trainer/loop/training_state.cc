// Numbers travel as JSON doubles (17 digits: exact), tensors as safetensors; nothing here depends on the rank.
#include "trainer/loop/training_state.h"

#include <ATen/ATen.h>

#include <limits>
#include <map>

#include "models/registry.h"
#include "trainer/errors.h"
#include "trainer/loop/roberta_model.h"

namespace dtrain::loop {
namespace {

nlohmann::json ToJson(const report::ValPoint& point) {
  nlohmann::json metrics = nlohmann::json::array();
  for (const report::Metric& metric : point.metrics) {
    metrics.push_back({{"name", metric.name},
                       {"value", metric.value},
                       {"decimals", metric.decimals},
                       {"higher_is_better", metric.higher_is_better},
                       {"table_heading", metric.table_heading},
                       {"table_decimals", metric.table_decimals}});
  }
  return {{"step", point.step}, {"epoch", point.epoch}, {"metrics", metrics}};
}

nlohmann::json ToJson(const std::optional<report::ValPoint>& point) {
  return point ? ToJson(*point) : nlohmann::json();
}

// A loss that was not finite was written as null.
double NumberOrNaN(const nlohmann::json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

std::optional<report::ValPoint> ValPointFromJson(const nlohmann::json& json) {
  if (json.is_null()) return std::nullopt;
  report::ValPoint point{.step = json.at("step"), .epoch = json.at("epoch")};
  for (const nlohmann::json& metric : json.at("metrics")) {
    point.metrics.push_back({.name = metric.at("name"),
                             .value = NumberOrNaN(metric.at("value")),
                             .decimals = metric.at("decimals"),
                             .higher_is_better = metric.at("higher_is_better"),
                             .table_heading = metric.at("table_heading"),
                             .table_decimals = metric.at("table_decimals")});
  }
  return point;
}

}  // namespace

nlohmann::json ToJson(const Progress& progress) {
  return {{"step", progress.step},
          {"interval_loss_sum", progress.interval_loss_sum},
          {"interval_weight", progress.interval_weight},
          {"last_train_loss", progress.last_train_loss},
          {"validation", ToJson(progress.validation)},
          {"best", ToJson(progress.best)},
          {"bucket_layout", progress.bucket_layout}};
}

Progress ProgressFromJson(const nlohmann::json& json) {
  Progress progress;
  progress.step = json.at("step");
  progress.interval_loss_sum = json.at("interval_loss_sum");
  progress.interval_weight = json.at("interval_weight");
  progress.last_train_loss = NumberOrNaN(json.at("last_train_loss"));
  progress.validation = ValPointFromJson(json.at("validation"));
  progress.best = ValPointFromJson(json.at("best"));
  progress.bucket_layout = json.at("bucket_layout").get<distributed::BucketLayout>();
  return progress;
}

nlohmann::json RunIdentity(const config::Config& config, const Plan& plan, const DataSets& data) {
  nlohmann::json identity = {{"model", config.model.name},
                             {"num_classes", data.num_classes},
                             {"optimizer", config.optimizer.name},
                             {"seed", config.batch.seed},
                             {"global_batch_size", plan.batch.global_batch_size},
                             {"shuffle", config.data.shuffle},
                             {"last_batch", config.data.last_batch},
                             {"repeated_augmentation", config.image.repeated_augmentation},
                             {"image_size_schedule", config.image.size_schedule},
                             {"data_samples", plan.train_samples},
                             {"data_fingerprint", data.train->source->fingerprint()}};
  if (!models::IsRoberta(config.model.name)) return identity;
  nlohmann::json shape =
      models::ToJson(RobertaOptionsOf(config, data.num_classes, ReadOutline(config.model.init_weights)));
  for (const char* may_change : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) shape.erase(may_change);
  identity.update({{kModelShapeKey, shape},
                   {"tokens_per_sample", config.text.tokens_per_sample},
                   {"max_tokens", config.text.max_tokens},
                   {"sample_break", config.text.sample_break}});
  return identity;
}

void RequireSameRun(const nlohmann::json& saved, const nlohmann::json& now, bool allow_dataset_change) {
  for (const auto& [key, value] : now.items()) {
    const nlohmann::json before = saved.value(key, nlohmann::json());
    if (before == value) continue;
    const std::string what =
        "the checkpoint was made with " + key + " = " + before.dump() + ", this run has " + value.dump();
    if (key.rfind("data_", 0) != 0) {
      throw UsageError(what, "use the same value to go on, or --resume=none or another --run_dir to start anew");
    }
    if (!allow_dataset_change) {
      throw DataError("the data set has changed: " + what,
                      "--allow_dataset_change goes on with the new one; the order of samples is then another");
    }
  }
}

std::vector<optim::NamedTensor> ParametersOf(const torch::nn::Module& module) {
  std::vector<optim::NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

std::vector<at::Tensor> RunningStatistics(const torch::nn::Module& module) {
  std::vector<at::Tensor> statistics;
  for (const auto& buffer : module.buffers()) {
    if (buffer.is_floating_point()) statistics.push_back(buffer);
  }
  return statistics;
}

checkpoint::NamedTensors StateOf(const torch::nn::Module& module) {
  checkpoint::NamedTensors state;
  for (const auto& item : module.named_parameters()) state.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace_back(item.key(), item.value());
  return state;
}

void CopyInto(const checkpoint::NamedTensors& destination, const checkpoint::NamedTensors& saved) {
  at::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> by_name(saved.begin(), saved.end());
  for (const auto& [name, tensor] : destination) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second.sizes() != tensor.sizes()) {
      throw StorageError(
          "the checkpoint's tensor " + name + (found == by_name.end() ? " is missing" : " has another shape"),
          "it belongs to another model: check --model and --num_classes, or start anew with --resume=none");
    }
    at::Tensor target = tensor;
    target.copy_(found->second);
  }
}

}  // namespace dtrain::loop
