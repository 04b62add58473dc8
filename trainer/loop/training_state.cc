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

// Reads the values of state.json one at a time and checks their types. A file with a right checksum hardly ever has a
// value of a wrong type, but an unchecked conversion of such a value could do anything.
class SavedObject {
 public:
  SavedObject(const nlohmann::json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) Refuse(name_, "an object");
  }

  const nlohmann::json& At(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) Refuse(Named(key), "there");
    return *found;
  }
  int64_t Count(const char* key) const { return CountIn(At(key), Named(key)); }
  int SmallInteger(const char* key) const {
    constexpr int64_t kMost = 100;  // more than any number of decimals or columns
    const nlohmann::json& value = At(key);
    const bool fits = value.is_number_integer() && value >= -kMost && value <= kMost;  // signed or unsigned
    if (!fits) Refuse(Named(key), "a small whole number");
    return value.get<int>();
  }
  double Number(const char* key) const { return Checked(key, "a number", &nlohmann::json::is_number); }
  // Reads null as NaN: a number that is not finite is written as null.
  double NumberOrNaN(const char* key) const {
    return At(key).is_null() ? std::numeric_limits<double>::quiet_NaN() : Number(key);
  }
  bool Boolean(const char* key) const { return Checked(key, "true or false", &nlohmann::json::is_boolean); }
  std::string Text(const char* key) const { return Checked(key, "a text", &nlohmann::json::is_string); }
  const nlohmann::json& Array(const char* key) const { return Checked(key, "a list", &nlohmann::json::is_array); }
  std::string Named(const char* key) const { return name_ + "." + key; }

  static int64_t CountIn(const nlohmann::json& value, const std::string& name) {
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                                 : value.is_number_integer() && value.get<int64_t>() >= 0;
    if (!fits) Refuse(name, "a whole number, 0 or more");
    return value.get<int64_t>();
  }
  [[noreturn]] static void Refuse(const std::string& name, const std::string& expected) {
    throw StorageError("the checkpoint's state.json is damaged: " + name + " is not " + expected,
                       "name an earlier checkpoint with --resume=PATH, or start anew with --resume=none");
  }

 private:
  const nlohmann::json& Checked(const char* key, const char* expected, bool (nlohmann::json::*is)() const) const {
    if (!(At(key).*is)()) Refuse(Named(key), expected);
    return At(key);
  }

  const nlohmann::json& json_;
  std::string name_;
};

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
std::optional<report::ValPoint> ValPointFromJson(const nlohmann::json& json, const std::string& name,
                                                 bool is_further = false) {
  if (json.is_null()) return std::nullopt;
  const SavedObject saved(json, name);
  report::ValPoint point{.step = saved.Count("step"), .epoch = saved.Number("epoch")};
  for (const nlohmann::json& item : saved.Array("metrics")) {
    const SavedObject metric(item, saved.Named("metrics"));
    point.metrics.push_back({.name = metric.Text("name"),
                             .value = metric.NumberOrNaN("value"),
                             .decimals = metric.SmallInteger("decimals"),
                             .higher_is_better = metric.Boolean("higher_is_better"),
                             .table_heading = metric.Text("table_heading"),
                             .table_decimals = metric.SmallInteger("table_decimals")});
  }
  for (report::Metric& metric : point.metrics) {
    if (metric.name != "f1" || metric.decimals != 4) continue;
    metric.value *= 100;  // of a version that had it as a part of one
    metric.decimals = 2;
  }
  if (point.metrics.empty()) SavedObject::Refuse(saved.Named("metrics"), "a list with something in it");
  if (json.contains("decides")) point.decides = static_cast<size_t>(saved.Count("decides"));  // newer than the others
  if (json.contains("samples_of_split")) {
    point.samples = saved.Count("samples");
    point.samples_of_split = saved.Count("samples_of_split");
  }
  if (json.contains("split")) point.split = saved.Text("split");
  if (json.contains("further") && !is_further) {
    for (const nlohmann::json& item : saved.Array("further")) {
      auto further = ValPointFromJson(item, saved.Named("further"), /*is_further=*/true);
      if (further) point.further.push_back(std::move(*further));
    }
  }
  if (point.decides >= point.metrics.size()) SavedObject::Refuse(saved.Named("decides"), "the number of a metric");
  return point;
}

distributed::BucketLayout BucketLayoutFromJson(const nlohmann::json& buckets, const std::string& name) {
  distributed::BucketLayout layout;
  for (const nlohmann::json& bucket : buckets) {
    if (!bucket.is_array()) SavedObject::Refuse(name, "a list of lists");
    layout.emplace_back();
    for (const nlohmann::json& index : bucket) {
      layout.back().push_back(static_cast<size_t>(SavedObject::CountIn(index, name)));
    }
  }
  return layout;
}

}  // namespace

nlohmann::json ToJson(const Progress& progress) {
  nlohmann::json json = {{"step", progress.step},
                         {"interval_loss_sum", progress.interval_loss_sum},
                         {"interval_weight", progress.interval_weight},
                         {"interval_hits", progress.interval_hits},
                         {"last_train_loss", progress.last_train_loss},
                         {"validation", ToJson(progress.validation)},
                         {"best", ToJson(progress.best)},
                         {"bucket_layout", progress.bucket_layout}};
  const LossStatistics& losses = progress.losses;
  if (losses.count > 0) {
    json["losses"] = {{"count", losses.count}, {"mean", losses.mean}, {"variance", losses.variance}};
  }
  return json;
}

Progress ProgressFromJson(const nlohmann::json& json) {
  const SavedObject saved(json, "progress");
  Progress progress;
  progress.step = saved.Count("step");
  progress.interval_loss_sum = saved.Number("interval_loss_sum");
  progress.interval_weight = saved.Number("interval_weight");
  progress.interval_hits = saved.Number("interval_hits");
  progress.last_train_loss = saved.NumberOrNaN("last_train_loss");
  progress.validation = ValPointFromJson(saved.At("validation"), saved.Named("validation"));
  progress.best = ValPointFromJson(saved.At("best"), saved.Named("best"));
  progress.bucket_layout = BucketLayoutFromJson(saved.Array("bucket_layout"), saved.Named("bucket_layout"));
  if (json.contains("losses")) {
    const SavedObject losses(saved.At("losses"), saved.Named("losses"));
    progress.losses = {losses.Count("count"), losses.Number("mean"), losses.Number("variance")};
  }
  if (json.contains("rewinds")) {
    for (const nlohmann::json& rewind : saved.Array("rewinds")) {
      progress.left_out_batches += SavedObject(rewind, saved.Named("rewinds")).Count("batches");
    }
  }
  return progress;
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
  const SavedObject must_be_one(saved, "run");
  nlohmann::json keys = saved;
  keys.update(now);
  // Keys about the data are compared last, and their numbers of samples before their sums: another flag that differs may
  // be the reason why they differ.
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
