#include "trainer/report/run_metrics.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace dtrain::report {
namespace {

// Returns the shortest text that reads back as the same number.
std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof(digits), value).ptr};
}

std::string QuotedLabel(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? "\\n" : std::string(1, c);
  }
  return quoted + '"';
}

std::string InBraces(const PrometheusText::Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) text += (text.empty() ? "{" : ",") + name + "=" + QuotedLabel(value);
  return text.empty() ? text : text + "}";
}

// Returns the name of a task's metric as a part of a Prometheus name, with an underscore for each other character.
std::string NamePart(const std::string& name) {
  std::string part = name;
  for (char& c : part) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return part;
}

void AddTraining(const TrainPoint& point, double seconds_since, PrometheusText& text) {
  text.Gauge("loss", "Mean loss over the global batches since the previous log line.", point.loss);
  text.Gauge("learning_rate", "Learning rate of the last logged step.", point.lr);
  text.Gauge(SpeedKey(point.speed_unit), "Speed of all ranks together since the previous log line.", point.speed);
  text.Gauge("step_seconds", "Mean time of a step since the previous log line.", point.step_seconds);
  text.Gauge("gradient_norm", "L2 norm of the gradients of the last logged step, before clipping.", point.grad_norm);
  text.Gauge("loss_scale", "Factor on the loss in mixed precision.", point.loss_scale);
  text.Gauge("last_step_timestamp_seconds", "Time at which the last logged step ended, in seconds since 1970.",
             point.time);
  text.Counter("bad_records_total", "Training records of all ranks that could not be read and were replaced.",
               static_cast<double>(point.bad_records));
  if (point.checkpoint_age) {
    text.Gauge("checkpoint_age_seconds", "Time since a checkpoint was last written to disk, or since the start.",
               *point.checkpoint_age + seconds_since);
  }
  text.Gauge("checkpoint_seconds", "Time that writing the last checkpoint took, in parallel to the training.",
             point.checkpoint_seconds);
}

void AddValidation(const ValPoint& point, PrometheusText& text) {
  const std::string set = point.split.empty() ? "" : NamePart(point.split) + "_";
  const std::string of = point.split.empty() ? "" : "on " + point.split + " ";
  for (const Metric& metric : point.metrics) {
    text.Gauge("val_" + set + NamePart(metric.name), "Result of the last validation " + of + "of " + metric.name + ".",
               metric.value);
  }
}

void AddGpus(const std::vector<GpuUse>& gpus, PrometheusText& text) {
  const auto add = [&](const char* name, const char* help, const auto& value) {
    for (const GpuUse& gpu : gpus) text.Gauge(name, help, value(gpu), {{"gpu", std::to_string(gpu.index)}});
  };
  add("gpu_utilization_ratio", "Share of the time in which a GPU of rank 0's machine was busy, 0 to 1.",
      [](const GpuUse& gpu) { return gpu.utilization; });
  add("gpu_memory_used_bytes", "Memory in use on a GPU of rank 0's machine.",
      [](const GpuUse& gpu) { return static_cast<double>(gpu.memory_used_bytes); });
  add("gpu_memory_total_bytes", "Memory of a GPU of rank 0's machine.",
      [](const GpuUse& gpu) { return static_cast<double>(gpu.memory_total_bytes); });
}

}  // namespace

void PrometheusText::Gauge(const std::string& name, std::string_view help, double value, const Labels& labels) {
  Add("gauge", name, help, value, labels);
}

void PrometheusText::Gauge(const std::string& name, std::string_view help, const std::optional<double>& value) {
  if (value) Add("gauge", name, help, *value, {});
}

void PrometheusText::Counter(const std::string& name, std::string_view help, double value) {
  Add("counter", name, help, value, {});
}

void PrometheusText::Add(std::string_view type, const std::string& name, std::string_view help, double value,
                         const Labels& labels) {
  const std::string full = "dtrain_" + name;
  if (std::exchange(last_name_, full) != full) {
    text_.append("# HELP ").append(full).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(full).append(" ").append(type).append("\n");
  }
  text_ += full + InBraces(labels) + " " + Number(value) + "\n";
}

RunMetrics::RunMetrics(RunFacts facts, GpuSource gpus) : facts_(std::move(facts)), gpus_(std::move(gpus)) {}

void RunMetrics::Resume(int64_t step, double epochs_done) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  epoch_ = epochs_done;
}

void RunMetrics::Train(const TrainPoint& point) {
  const std::lock_guard lock(mutex_);
  data_wait_seconds_ += point.data_seconds * static_cast<double>(point.step - step_);
  skipped_steps_ += point.skipped_steps;
  step_ = point.step;
  epoch_ = point.epoch;
  train_ = point;
  train_heard_ = Clock::now();
}

void RunMetrics::Validation(const ValPoint& point) {
  const std::lock_guard lock(mutex_);
  if (point.split.empty()) {
    validation_ = point;
    validation_->further.clear();
  } else if (validation_) {
    validation_->further.push_back(point);
  }
}

void RunMetrics::Epoch(const EpochPoint& point) {
  const std::lock_guard lock(mutex_);
  epoch_seconds_ = point.epoch_seconds;
}

void RunMetrics::Finish(const RunResult& result) {
  const std::lock_guard lock(mutex_);
  step_ = result.step;
  epoch_ = result.epoch;
  finished_ = true;
}

std::string RunMetrics::Text() const {
  const std::vector<GpuUse> gpus = gpus_();  // without the lock: the driver may be slow, and the loop must not wait
  PrometheusText text;
  const std::lock_guard lock(mutex_);
  text.Gauge("build_info", "Always 1; the labels give the version and the model.", 1,
             {{"version", DTRAIN_VERSION}, {"model", facts_.model}});
  text.Gauge("ranks", "Number of ranks of the run.", facts_.world_size);
  text.Gauge("planned_steps", "Optimizer steps of the whole run.", static_cast<double>(facts_.total_steps));
  text.Counter("step_total", "Optimizer steps done, as of the last logged one.", static_cast<double>(step_));
  text.Gauge("epoch", "Epochs done so far, as a fraction.", epoch_);
  text.Gauge("finished", "1 when all steps are done.", finished_ ? 1 : 0);
  text.Counter("data_wait_seconds_total", "Time that steps have waited for data.", data_wait_seconds_);
  text.Counter("skipped_steps_total", "Steps whose gradients were not finite.", static_cast<double>(skipped_steps_));
  text.Gauge("epoch_seconds", "Duration of the last whole epoch.", epoch_seconds_);
  if (train_) {
    AddTraining(*train_, std::chrono::duration<double>(Clock::now() - train_heard_).count(), text);
  }
  if (validation_) {
    AddValidation(*validation_, text);
    for (const ValPoint& further : validation_->further) AddValidation(further, text);
  }
  AddGpus(gpus, text);
  return text.Take();
}

}  // namespace dtrain::report
