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
  json["time"] = point.time;
  return json.dump();
}

std::string JsonLine(const ValPoint& point) {
  Json json = {{"kind", "val"}, {"step", point.step}, {"epoch", point.epoch}};
  SetIfKnown(json, "top1", point.top1);
  SetIfKnown(json, "top5", point.top5);
  json["loss"] = point.loss;
  SetIfKnown(json, "perplexity", point.perplexity);
  SetIfKnown(json, "accuracy", point.accuracy);
  SetIfAny(json, "bad_records", point.bad_records);
  return json.dump();
}

std::string JsonLine(const EpochPoint& point) {
  return Json{{"kind", "epoch"}, {"epoch", point.epoch}, {"epoch_seconds", point.epoch_seconds}}.dump();
}

std::string ResultJson(const RunResult& result) {
  Json json = Json::object();
  if (result.validation) {
    SetIfKnown(json, "val_top1", result.validation->top1);
    SetIfKnown(json, "val_top5", result.validation->top5);
    json["val_loss"] = result.validation->loss;
    SetIfKnown(json, "val_perplexity", result.validation->perplexity);
    SetIfKnown(json, "val_accuracy", result.validation->accuracy);
  } else {
    json["train_loss"] = result.train_loss;
  }
  json["step"] = result.step;
  json["epoch"] = result.epoch;
  json["seconds"] = result.seconds;
  json["samples_seen"] = result.samples_seen;
  json["world_size"] = result.world_size;
  json[SpeedKey(result.speed_unit)] = result.speed;
  return json.dump(2) + "\n";
}

std::string FinalLine(const RunResult& result) {
  if (!result.validation) return Fixed("train_loss", result.train_loss, 4);
  const ValPoint& point = *result.validation;
  std::string line;
  if (point.top1) line += Fixed("val_top1", *point.top1, 2) + " ";
  if (point.top5) line += Fixed("val_top5", *point.top5, 2) + " ";
  line += Fixed("val_loss", point.loss, 4);
  if (point.perplexity) line += " " + Fixed("val_perplexity", *point.perplexity, 2);
  if (point.accuracy) line += " " + Fixed("val_accuracy", *point.accuracy, 2);
  return line;
}

}  // namespace dtrain::report
