// Numbers are stored as JSON doubles, exactly (17 digits). Nothing here depends on the rank.
#include "trainer/loop/training_state.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

#include "data/shallow_json.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::loop {
namespace {

constexpr std::string_view kOfInterval = "interval_";
constexpr char kTaskKey[] = "task";

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
  nlohmann::json json = {
      {"step", point.step}, {"epoch", point.epoch}, {"metrics", metrics}, {"decides", point.decides}};
  if (!point.split.empty()) json["split"] = point.split;
  for (const report::ValPoint& further : point.further) json["further"].push_back(ToJson(further));
  if (point.is_limited()) json.update({{"samples", point.samples}, {"samples_of_split", point.samples_of_split}});
  return json;
}

nlohmann::json ToJson(const std::optional<report::ValPoint>& point) {
  return point ? ToJson(*point) : nlohmann::json();
}

[[noreturn]] void Refuse(const std::string& why) {
  throw StorageError("the checkpoint's state.json is damaged: " + why,
                     "name an earlier checkpoint with --resume=PATH, or start anew with --resume=none");
}

// The library's conversions throw for a value of another type, but cast numbers, and a cast can do anything.
int64_t Count(const nlohmann::json& value) {
  const uint64_t count = value.get_ref<const nlohmann::json::number_unsigned_t&>();
  if (count > static_cast<uint64_t>(INT64_MAX)) Refuse(value.dump() + " is too large a number");
  return static_cast<int64_t>(count);
}

int Decimals(const nlohmann::json& value) { return static_cast<int>(std::min<int64_t>(Count(value), 100)); }

// A number that is not finite is written as null.
double NumberOrNaN(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// Returns what holds for a checkpoint of before a flag was compared: its default. Null for what is no such flag.
nlohmann::json ValueIfAbsent(const std::string& key) {
  const config::Flag* flag = config::FindFlag(key);
  if (flag == nullptr || !flag->traits.same_on_resume) return {};
  return config::ToJson(config::Config()).at(key);
}

std::string ValueOf(const std::string& key, const nlohmann::json& value) {
  return value.is_null() ? "no " + key : key + " = " + JsonText(value);
}

// A point of a further validation set has none itself, so that damaged files do not recurse.
std::optional<report::ValPoint> ValPointFromJson(const nlohmann::json& json, bool is_further = false) {
  if (json.is_null()) return std::nullopt;
  report::ValPoint point{.step = Count(json.at("step")), .epoch = json.at("epoch").get<double>()};
  for (const nlohmann::json& metric : json.at("metrics").get_ref<const nlohmann::json::array_t&>()) {
    point.metrics.push_back({.name = metric.at("name"),
                             .value = NumberOrNaN(metric.at("value")),
                             .decimals = Decimals(metric.at("decimals")),
                             .higher_is_better = metric.at("higher_is_better"),
                             .table_heading = metric.at("table_heading"),
                             .table_decimals = Decimals(metric.at("table_decimals"))});
  }
  if (json.contains("decides")) point.decides = static_cast<size_t>(Count(json["decides"]));  // newer than the others
  if (point.decides >= point.metrics.size()) Refuse("its evaluation lacks the metric that decides");
  if (json.contains("samples_of_split")) {
    point.samples = Count(json.at("samples"));
    point.samples_of_split = Count(json["samples_of_split"]);
  }
  if (json.contains("split")) point.split = json["split"];
  if (json.contains("further") && !is_further) {
    for (const nlohmann::json& item : json["further"].get_ref<const nlohmann::json::array_t&>()) {
      if (auto further = ValPointFromJson(item, /*is_further=*/true)) point.further.push_back(std::move(*further));
    }
  }
  return point;
}

distributed::BucketLayout BucketLayoutFromJson(const nlohmann::json& buckets) {
  distributed::BucketLayout layout;
  for (const nlohmann::json& bucket : buckets.get_ref<const nlohmann::json::array_t&>()) {
    layout.emplace_back();
    for (const nlohmann::json& index : bucket.get_ref<const nlohmann::json::array_t&>()) {
      layout.back().push_back(static_cast<size_t>(Count(index)));
    }
  }
  return layout;
}

Progress ReadProgress(const nlohmann::json& json) {
  Progress progress;
  progress.step = Count(json.at("step"));
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with(kOfInterval)) progress.interval[key.substr(kOfInterval.size())] = value;
  }
  progress.last_train_loss = NumberOrNaN(json.at("last_train_loss"));
  progress.validation = ValPointFromJson(json.at("validation"));
  progress.best = ValPointFromJson(json.at("best"));
  progress.bucket_layout = BucketLayoutFromJson(json.at("bucket_layout"));
  if (json.contains("losses")) {
    const nlohmann::json& losses = json["losses"];
    progress.losses = {Count(losses.at("count")), losses.at("mean"), losses.at("variance")};
  }
  return progress;
}

}  // namespace

nlohmann::json ToJson(const Progress& progress) {
  nlohmann::json json = {{"step", progress.step},
                         {"last_train_loss", progress.last_train_loss},
                         {"validation", ToJson(progress.validation)},
                         {"best", ToJson(progress.best)},
                         {"bucket_layout", progress.bucket_layout}};
  for (const auto& [name, sum] : progress.interval) json[std::string(kOfInterval) + name] = sum;
  const LossStatistics& losses = progress.losses;
  if (losses.count > 0) {
    json["losses"] = {{"count", losses.count}, {"mean", losses.mean}, {"variance", losses.variance}};
  }
  return json;
}

Progress ProgressFromJson(const nlohmann::json& json) {
  try {
    return ReadProgress(json);
  } catch (const nlohmann::json::exception& error) {
    Refuse(error.what());
  }
}

nlohmann::json RunIdentity(const config::Config& config, const Plan& plan, const tasks::DataSets& data) {
  const nlohmann::json settings = config::ToJson(config);
  nlohmann::json identity;
  for (const std::string& flag : config::FlagsWith(&config::FlagTraits::same_on_resume)) {
    identity[flag] = settings.at(flag);
  }
  identity.update({{kTaskKey, tasks::KindOf(config).name()},
                   {"num_classes", data.num_classes},
                   {"global_batch_size", plan.batch.global_batch_size},
                   {"data_samples", plan.train_samples},
                   {"data_fingerprint", data.train->source->fingerprint()}});
  identity.update(tasks::KindOf(config).Identity(config, data));
  return identity;
}

void RequireSameRun(const nlohmann::json& saved, const nlohmann::json& now, bool allow_dataset_change) {
  if (!saved.is_object()) Refuse("it does not describe its run");
  nlohmann::json keys = saved;
  keys.update(now);
  // Keys about the data are compared last, and their numbers of samples before their sums: another flag that differs
  // may be the reason why they differ.
  std::vector<std::string> names, of_data;
  for (const auto& item : keys.items()) (item.key().rfind("data_", 0) == 0 ? of_data : names).push_back(item.key());
  names.insert(names.end(), of_data.rbegin(), of_data.rend());
  for (const std::string& key : names) {
    const nlohmann::json absent = ValueIfAbsent(key);
    const nlohmann::json before = saved.value(key, absent), value = now.value(key, absent);
    if (before == value) continue;
    if (key == kTaskKey && before.is_null()) continue;  // of a version in which the model decided
    if (key == kShardsKey && (before.is_null() || value.is_null())) {
      const std::string then = before.is_null() ? "without" : "with", now_is = before.is_null() ? "with" : "without";
      throw UsageError(
          "the checkpoint was made " + then + " --deterministic=elastic, but this run is " + now_is + " it",
          "continue " + then + " it, or start anew with --resume=none or another --run_dir");
    }
    const std::string what = "the checkpoint was made with " + ValueOf(key, before) + ", but this run has " +
                             (value.is_null() ? "none" : JsonText(value));
    if (key.rfind("data_", 0) != 0) {
      throw UsageError(what, "use the same value to continue, or --resume=none or another --run_dir to start anew");
    }
    if (!allow_dataset_change) {
      throw DataError("the data set has changed: " + what,
                      "use --allow_dataset_change to continue with the new one, in a different order of samples");
    }
  }
}

}  // namespace dtrain::loop
