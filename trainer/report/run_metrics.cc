#include "trainer/report/run_metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cctype>
#include <utility>

namespace dtrain::report {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

// Metrics of one name follow each other: what is added under the name before belongs to the same family.
class Families {
 public:
  void Gauge(const std::string& name, const std::string& help, double value, Labels labels = {}) {
    Add(prometheus::MetricType::Gauge, name, help, std::move(labels)).gauge.value = value;
  }
  void Gauge(const std::string& name, const std::string& help, const std::optional<double>& value) {
    if (value) Gauge(name, help, *value);
  }
  void Counter(const std::string& name, const std::string& help, double value) {
    Add(prometheus::MetricType::Counter, name, help, {}).counter.value = value;
  }
  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& Add(prometheus::MetricType type, const std::string& name, const std::string& help,
                                Labels labels) {
    const std::string full = "dtrain_" + name;
    if (families_.empty() || families_.back().name != full) families_.push_back({full, help, type, {}});
    prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<prometheus::MetricFamily> families_;
};

// Of a name of a task's metric, what a metric of Prometheus may be called.
std::string NamePart(const std::string& name) {
  std::string part = name;
  for (char& c : part) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return part;
}

void AddTraining(const TrainPoint& point, double seconds_since, Families& families) {
  families.Gauge("loss", "Mean of the criterion over the global batches since the line before.", point.loss);
  families.Gauge("learning_rate", "Of the last logged step.", point.lr);
  families.Gauge(SpeedKey(point.speed_unit), "Of the whole run, all ranks, since the line before.", point.speed);
  families.Gauge("step_seconds", "Mean time of a step since the line before.", point.step_seconds);
  families.Gauge("gradient_norm", "Of the last logged step, before clipping.", point.grad_norm);
  families.Gauge("loss_scale", "What the loss is multiplied by in mixed precision.", point.loss_scale);
  families.Gauge("last_step_timestamp_seconds", "When the last logged step ended, since 1970.", point.time);
  families.Counter("bad_records_total", "Training records that could not be read and were replaced, all ranks.",
                   static_cast<double>(point.bad_records));
  if (point.checkpoint_age) {
    families.Gauge("checkpoint_age_seconds", "Since a checkpoint was last on the disk, or since the start.",
                   *point.checkpoint_age + seconds_since);
  }
  families.Gauge("checkpoint_seconds", "How long writing the last checkpoint took, beside the training.",
                 point.checkpoint_seconds);
}

void AddGpus(const std::vector<GpuUse>& gpus, Families& families) {
  const auto add = [&](const char* name, const char* help, const auto& value) {
    for (const GpuUse& gpu : gpus) families.Gauge(name, help, value(gpu), {{"gpu", std::to_string(gpu.index)}});
  };
  add("gpu_utilization_ratio", "Part of the time in which a GPU of rank 0's machine computed, 0 to 1.",
      [](const GpuUse& gpu) { return gpu.utilization; });
  add("gpu_memory_used_bytes", "Memory in use on a GPU of rank 0's machine.",
      [](const GpuUse& gpu) { return static_cast<double>(gpu.memory_used_bytes); });
  add("gpu_memory_total_bytes", "Memory of a GPU of rank 0's machine.",
      [](const GpuUse& gpu) { return static_cast<double>(gpu.memory_total_bytes); });
}

}  // namespace

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
  validation_ = point;
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

std::vector<prometheus::MetricFamily> RunMetrics::Collect() const {
  const std::vector<GpuUse> gpus = gpus_();  // the driver may be slow: the loop must not wait for it
  Families families;
  const std::lock_guard lock(mutex_);
  families.Gauge("build_info", "1; its labels say what runs.", 1,
                 {{"version", DTRAIN_VERSION}, {"model", facts_.model}});
  families.Gauge("ranks", "Processes that train together.", facts_.world_size);
  families.Gauge("planned_steps", "Optimizer steps of the whole run.", static_cast<double>(facts_.total_steps));
  families.Counter("step_total", "Optimizer steps done, as of the last logged one.", static_cast<double>(step_));
  families.Gauge("epoch", "Samples seen, in epochs.", epoch_);
  families.Gauge("finished", "1 when all steps are done.", finished_ ? 1 : 0);
  families.Counter("data_wait_seconds_total", "Time that steps have waited for data.", data_wait_seconds_);
  families.Counter("skipped_steps_total", "Steps whose gradients were not finite.",
                   static_cast<double>(skipped_steps_));
  families.Gauge("epoch_seconds", "Duration of the last whole epoch.", epoch_seconds_);
  if (train_) {
    AddTraining(*train_, std::chrono::duration<double>(Clock::now() - train_heard_).count(), families);
  }
  if (validation_) {
    for (const Metric& metric : validation_->metrics) {
      families.Gauge("val_" + NamePart(metric.name), "Of the last validation: " + metric.name + ".", metric.value);
    }
  }
  AddGpus(gpus, families);
  return families.Take();
}

std::string PrometheusText(const prometheus::Collectable& metrics) {
  const prometheus::TextSerializer serializer;
  return serializer.Serialize(metrics.Collect());
}

}  // namespace dtrain::report
