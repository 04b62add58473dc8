#include "trainer/report/points.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "data/shallow_json.h"
#include "trainer/report/log.h"

namespace dtrain::report {
namespace {

using Json = nlohmann::ordered_json;  // keeps the documented order of keys; dump() writes NaN as null

void SetIfKnown(Json& json, const char* key, const std::optional<double>& value) {
  if (value) json[key] = *value;
}

void SetIfAny(Json& json, const char* key, int64_t count) {
  if (count > 0) json[key] = count;
}

std::string Fixed(const std::string& key, double value, int decimals) {
  return key + Format("=%.*f", decimals, std::isnan(value) ? std::fabs(value) : value);  // never "-nan"
}

// Adds the parts besides data_seconds, which the line has already.
void AddStepParts(Json& json, const TimeParts& parts) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kExchange, Phase::kUpdate, Phase::kOther}) {
    json[SecondsKey(phase)] = parts[phase];
  }
}

// Leaves out parts that took no time. "goodput" is the share of the total time spent on computing that was kept.
void AddTimeSplit(Json& json, const TimeSplit& split) {
  const TimeParts& kept = split.kept;
  const double compute = kept[Phase::kForward] + kept[Phase::kBackward] + kept[Phase::kUpdate];
  const double total = kept.total() + split.lost_seconds;
  Json parts = Json::object();
  const auto add = [&parts](const char* key, double seconds) {
    if (seconds > 0) parts[key] = seconds;
  };
  for (const Phase phase : {Phase::kStarting, Phase::kData}) add(SecondsKey(phase), kept[phase]);
  add("compute_seconds", compute);
  for (const Phase phase : {Phase::kExchange, Phase::kSaving, Phase::kEvaluation, Phase::kOther}) {
    add(SecondsKey(phase), kept[phase]);
  }
  add("lost_seconds", split.lost_seconds);
  parts["total_seconds"] = total;
  json["attempts"] = split.attempts;
  json["goodput"] = compute / total;
  json["time_split"] = parts;
}

void AddLimit(Json& json, const std::string& prefix, const ValPoint& point) {
  if (!point.is_limited()) return;
  json[prefix + "samples"] = point.samples;
  json[prefix + "samples_of_split"] = point.samples_of_split;
}

// "val_", or "val_test_" of a further validation set, in whose name nothing may end a key of the last line
std::string PrefixOf(const ValPoint& point) {
  std::string prefix = point.trained_on ? "train_" : "val_";
  if (!point.split.empty()) prefix += point.split + "_";
  std::ranges::replace_if(
      prefix, [](char c) { return c == '=' || static_cast<unsigned char>(c) <= ' '; }, '_');
  return prefix;
}

void AddValidation(Json& json, const ValPoint& point) {
  for (const Metric& metric : point.metrics) json[PrefixOf(point) + metric.name] = metric.value;
  AddLimit(json, PrefixOf(point), point);
}

// "val_top1=75.93 val_loss=0.9912"
std::string FinalText(const ValPoint& point) {
  const std::string prefix = PrefixOf(point);
  std::string line;
  for (const Metric& metric : point.metrics) {
    line += (line.empty() ? "" : " ") + Fixed(prefix + metric.name, metric.value, metric.decimals);
  }
  if (point.is_limited()) {
    line += " " + prefix + "samples=" + std::to_string(point.samples) + " " + prefix +
            "samples_of_split=" + std::to_string(point.samples_of_split);
  }
  return line;
}

void AddResult(Json& json, const RunResult& result) {
  if (result.validation) {
    AddValidation(json, *result.validation);
    for (const ValPoint& further : result.validation->further) AddValidation(json, further);
  } else {
    json["train_loss"] = result.train_loss;
  }
  if (result.best) {
    json["best_" + result.best->decisive().name] = result.best->decisive().value;
    json["best_step"] = result.best->step;
  }
  if (!result.stopped_early.empty()) json["stopped_early"] = result.stopped_early;
  json["step"] = result.step;
  json["epoch"] = result.epoch;
  json["seconds"] = result.seconds;
  json["samples_seen"] = result.samples_seen;
  SetIfAny(json, "bad_records", result.bad_records);
  json["world_size"] = result.world_size;
  json[SpeedKey(result.speed_unit)] = result.speed;
  if (result.time_split) AddTimeSplit(json, *result.time_split);
  json[kSmallerIsBetter] = SmallerIsBetter(result);
}

// From here on, fairseq 0.12: its JsonProgressBar, its meters and the rounding that is given to each of them.

// Python's round(). Like it, printf rounds the exact value, and halves to even.
double Rounded(double value, int decimals) { return std::strtod(Format("%.*f", decimals, value).c_str(), nullptr); }

// Python's "{:g}".
std::string General(double value) { return Format("%g", value); }

std::string General(double value, int decimals) { return General(Rounded(value, decimals)); }

double PerSecond(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

double PerBatch(int64_t count, const TextCounts& counts) {
  return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, counts.batches));
}

// Adds the loss and its perplexity or, if it has none, the other metrics.
void AddLoss(Json& json, const std::string& prefix, double nats, const Metrics& metrics, const TextCounts& counts) {
  const double bits = nats / std::numbers::ln2;
  json[prefix + "loss"] = General(bits, 3);
  if (counts.has_perplexity) {
    json[prefix + "ppl"] = General(std::exp2(bits), 2);
    return;
  }
  for (const Metric& metric : metrics) {
    if (metric.name != "loss") json[prefix + metric.name] = General(metric.value, metric.decimals);
  }
}

double LossOf(const Metrics& metrics) {
  const auto loss = std::ranges::find(metrics, "loss", &Metric::name);
  return loss != metrics.end() ? loss->value : std::numeric_limits<double>::quiet_NaN();
}

std::string_view WithoutAverage(std::string_view metric) {
  return metric.starts_with(kOfAverage) ? metric.substr(kOfAverage.size()) : metric;
}

}  // namespace

const char* SecondsKey(Phase phase) {
  constexpr std::array<const char*, kNumPhases> kKeys = {
      "startup_seconds", "data_wait_seconds",  "forward_seconds",    "backward_seconds", "communication_seconds",
      "update_seconds",  "evaluation_seconds", "checkpoint_seconds", "leaving_seconds",  "other_seconds"};
  return kKeys[static_cast<size_t>(phase)];
}

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool IsBetter(const Metric& candidate, const Metric& known) {
  if (std::isnan(candidate.value)) return false;
  if (WithoutAverage(candidate.name) != WithoutAverage(known.name)) return true;
  if (std::isnan(known.value)) return true;
  return candidate.higher_is_better ? candidate.value > known.value : candidate.value < known.value;
}

void ValPoint::DecideBy(const std::string& name) {
  const std::string prefix(decisive().name.starts_with(kOfAverage) ? kOfAverage : "");
  const auto found = std::ranges::find(metrics, prefix + std::string(WithoutAverage(name)), &Metric::name);
  if (found != metrics.end()) decides = static_cast<size_t>(found - metrics.begin());
}

const char* SpeedKey(SpeedUnit unit) { return unit == SpeedUnit::kImages ? "images_per_second" : "tokens_per_second"; }

std::string JsonLine(const TrainPoint& point) {
  Json json = {{"kind", "train"}, {"step", point.step}, {"epoch", point.epoch}, {"loss", point.loss}, {"lr", point.lr}};
  for (const Metric& metric : point.metrics) json[metric.name] = metric.value;
  json[SpeedKey(point.speed_unit)] = point.speed;
  json["data_seconds"] = point.data_seconds;
  json["step_seconds"] = point.step_seconds;
  if (point.step_parts) AddStepParts(json, *point.step_parts);
  SetIfKnown(json, "grad_norm", point.grad_norm);
  SetIfKnown(json, "loss_scale", point.loss_scale);
  SetIfAny(json, "bad_records", point.bad_records);
  if (point.text) {
    json["tokens"] = point.text->tokens;
    json["padding_tokens"] = point.text->padding;
    SetIfAny(json, "empty_samples", point.text->empty_samples);
  }
  json["time"] = point.time;
  return JsonText(json);
}

std::string JsonLine(const ValPoint& point) {
  Json json = {{"kind", "val"}, {"step", point.step}, {"epoch", point.epoch}};
  if (!point.split.empty()) json["split"] = point.split;
  if (point.trained_on) json["trained_on"] = true;
  for (const Metric& metric : point.metrics) json[metric.name] = metric.value;
  AddLimit(json, "", point);
  SetIfAny(json, "bad_records", point.bad_records);
  if (point.text) SetIfAny(json, "empty_samples", point.text->empty_samples);
  return JsonText(json);
}

std::string JsonLine(const EpochPoint& point) {
  return Json{{"kind", "epoch"}, {"epoch", point.epoch}, {"epoch_seconds", point.epoch_seconds}}.dump();
}

std::string JsonLine(const SpikePoint& point) {
  Json json = {{"kind", "spike"},
               {"step", point.step},
               {"loss", point.loss},
               {"mean", point.mean},
               {"deviation", point.deviation},
               {"action", point.action},
               {"samples_of_step", point.samples_of_step},
               {"samples", Json::array()}};
  for (const PlacedSample& sample : point.samples) {
    Json placed = {{"index", sample.index}, {"file", sample.place.file}};
    if (sample.place.offset) placed["offset"] = *sample.place.offset;
    json["samples"].push_back(std::move(placed));
  }
  return JsonText(json);
}

std::string JsonLine(const CheckpointPoint& point) {
  return JsonText(Json{{"kind", "checkpoint"}, {"step", point.step}, {"path", point.path}});
}

std::vector<std::string> SmallerIsBetter(const RunResult& result) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& prefix, const Metric& metric) {
    if (!metric.higher_is_better) names.push_back(prefix + metric.name);
  };
  const auto add_set = [&add](const ValPoint& point) {
    for (const Metric& metric : point.metrics) add(PrefixOf(point), metric);
  };
  if (result.validation) {
    add_set(*result.validation);
    std::ranges::for_each(result.validation->further, add_set);
  } else {
    names.emplace_back("train_loss");
  }
  if (result.best) add("best_", result.best->decisive());
  names.emplace_back("seconds");
  return names;
}

std::string ResultJson(const RunResult& result) {
  Json json = Json::object();
  AddResult(json, result);
  return JsonText(json, 2) + "\n";
}

std::string JsonLine(const RunResult& result) {
  Json json = {{"kind", "result"}};
  AddResult(json, result);
  return JsonText(json);
}

std::string FinalLine(const RunResult& result) {
  if (!result.validation) return Fixed("train_loss", result.train_loss, 4);
  std::string line = FinalText(*result.validation);
  for (const ValPoint& further : result.validation->further) line += " " + FinalText(further);
  return line;
}

std::string FairseqLine(const TrainPoint& point) {
  const TextCounts counts = point.text.value_or(TextCounts());
  Json json = {{"epoch", point.epoch_number}, {"update", Rounded(point.epoch, 3)}};
  AddLoss(json, "", point.loss, point.metrics, counts);
  json["wps"] = General(PerSecond(static_cast<double>(counts.tokens), counts.seconds), 1);
  json["ups"] = General(PerSecond(static_cast<double>(counts.batches), counts.seconds), 2);
  json["wpb"] = General(PerBatch(counts.tokens, counts), 1);
  json["bsz"] = General(PerBatch(counts.samples, counts), 1);
  json["num_updates"] = General(static_cast<double>(point.step));
  json["lr"] = General(point.lr);
  if (point.mean_grad_norm) json["gnorm"] = General(*point.mean_grad_norm, 3);
  if (point.clipped) json["clip"] = General(*point.clipped, 1);
  if (point.loss_scale) json["loss_scale"] = General(*point.loss_scale, 4);
  json["train_wall"] = General(counts.seconds, 0);
  if (point.free_gigabytes) json["gb_free"] = General(*point.free_gigabytes, 1);
  json["wall"] = General(point.run_seconds, 0);
  return JsonText(json);
}

std::string FairseqLine(const ValPoint& point) {
  const TextCounts counts = point.text.value_or(TextCounts());
  const std::string set = point.split.empty() ? "valid_" : point.split + "_";
  Json json = {{"epoch", point.epoch_number}};
  AddLoss(json, set, LossOf(point.metrics), point.metrics, counts);
  json[set + "wps"] = General(PerSecond(static_cast<double>(counts.tokens), counts.seconds), 1);
  json[set + "wpb"] = General(PerBatch(counts.tokens, counts), 1);
  json[set + "bsz"] = General(PerBatch(counts.samples, counts), 1);
  json[set + "num_updates"] = General(static_cast<double>(point.step));
  if (point.best) {
    const std::string& name = point.decisive().name;
    json[set + "best_" + name] =
        General(WithoutAverage(name) == "loss" ? *point.best / std::numbers::ln2 : *point.best, 3);
  }
  if (point.is_limited()) {
    json[set + "samples"] = std::to_string(point.samples);
    json[set + "samples_of_split"] = std::to_string(point.samples_of_split);
  }
  return JsonText(json);
}

}  // namespace dtrain::report
