#include "trainer/report/points.h"

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace dtrain::report {
namespace {

using Json = nlohmann::ordered_json;  // keys in the order in which they are documented; dump() makes NaN null

void SetIfKnown(Json& json, const char* key, const std::optional<double>& value) {
  if (value) json[key] = *value;
}

void SetIfAny(Json& json, const char* key, int64_t count) {
  if (count > 0) json[key] = count;
}

std::string Fixed(const char* key, double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%s=%.*f", key, decimals, value);
  return text;
}

void AddResult(Json& json, const RunResult& result) {
  if (result.validation) {
    for (const Metric& metric : result.validation->metrics) json["val_" + metric.name] = metric.value;
  } else {
    json["train_loss"] = result.train_loss;
  }
  if (result.best) {
    json["best_" + result.best->metrics.front().name] = result.best->metrics.front().value;
    json["best_step"] = result.best->step;
  }
  json["step"] = result.step;
  json["epoch"] = result.epoch;
  json["seconds"] = result.seconds;
  json["samples_seen"] = result.samples_seen;
  json["world_size"] = result.world_size;
  json[SpeedKey(result.speed_unit)] = result.speed;
}

}  // namespace

const char* SpeedKey(SpeedUnit unit) { return unit == SpeedUnit::kImages ? "images_per_second" : "tokens_per_second"; }

std::string JsonLine(const TrainPoint& point) {
  Json json = {{"kind", "train"}, {"step", point.step}, {"epoch", point.epoch}, {"loss", point.loss}, {"lr", point.lr}};
  json[SpeedKey(point.speed_unit)] = point.speed;
  json["data_seconds"] = point.data_seconds;
  json["step_seconds"] = point.step_seconds;
  SetIfKnown(json, "grad_norm", point.grad_norm);
  SetIfKnown(json, "loss_scale", point.loss_scale);
  SetIfAny(json, "bad_records", point.bad_records);
  if (point.decoded_on_cpu) json["decoded_on_cpu"] = *point.decoded_on_cpu;
  if (point.text) {
    json["tokens"] = point.text->tokens;
    json["padding_tokens"] = point.text->padding;
  }
  json["time"] = point.time;
  return json.dump();
}

std::string JsonLine(const ValPoint& point) {
  Json json = {{"kind", "val"}, {"step", point.step}, {"epoch", point.epoch}};
  for (const Metric& metric : point.metrics) json[metric.name] = metric.value;
  SetIfAny(json, "bad_records", point.bad_records);
  return json.dump();
}

std::string JsonLine(const EpochPoint& point) {
  return Json{{"kind", "epoch"}, {"epoch", point.epoch}, {"epoch_seconds", point.epoch_seconds}}.dump();
}

std::string ResultJson(const RunResult& result) {
  Json json = Json::object();
  AddResult(json, result);
  return json.dump(2) + "\n";
}

std::string JsonLine(const RunResult& result) {
  Json json = {{"kind", "result"}};
  AddResult(json, result);
  return json.dump();
}

std::string FinalLine(const RunResult& result) {
  if (!result.validation) return Fixed("train_loss", result.train_loss, 4);
  std::string line;
  for (const Metric& metric : result.validation->metrics) {
    line += (line.empty() ? "val_" : " val_") + Fixed(metric.name.c_str(), metric.value, metric.decimals);
  }
  return line;
}

}  // namespace dtrain::report
