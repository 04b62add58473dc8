// Follows fairseq 0.12: its JsonProgressBar, its meters and the rounding that is given to each of them.
#include "trainer/report/fairseq_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

namespace dtrain::report {
namespace {

using Json = nlohmann::ordered_json;

// Python's round(). Like it, printf rounds the exact value, and halves to even.
double Rounded(double value, int decimals) {
  char text[400];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return std::strtod(text, nullptr);
}

// Python's "{:g}".
std::string General(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

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
  const auto loss = std::find_if(metrics.begin(), metrics.end(), [](const Metric& m) { return m.name == "loss"; });
  return loss != metrics.end() ? loss->value : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

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
  return json.dump();
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
    json[set + "best_" + name] = General(name == "loss" ? *point.best / std::numbers::ln2 : *point.best, 3);
  }
  if (point.is_limited()) {
    json[set + "samples"] = std::to_string(point.samples);
    json[set + "samples_of_split"] = std::to_string(point.samples_of_split);
  }
  return json.dump();
}

}  // namespace dtrain::report
