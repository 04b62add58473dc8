// --dry_run: everything that a run works out before it starts, on one machine, in seconds.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/pipeline/size_schedule.h"
#include "data/shown.h"
#include "trainer/device/device.h"
#include "trainer/loop/plan.h"
#include "trainer/modes/run.h"
#include "trainer/report/log.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/image_decoding.h"
#include "trainer/tasks/make_task.h"
#include "trainer/tasks/split_batches.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::loop {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

int64_t CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// Weights, gradients and the optimizer's state, and what the forward pass keeps for the backward pass; per rank, in
// bytes.
double MemoryEstimate(const config::Config& config, Task& task, const Plan& plan) {
  const double copies = config.optimizer.name == "sgd" ? 3 : 4;
  const double state = copies * sizeof(float) * static_cast<double>(CountParameters(task.module()));
  const bool half = config.precision.name == "fp16" || config.precision.name == "bf16";
  const double element = half ? 2 : 4;
  return state + element * static_cast<double>(task.CostOfSample().activation_elements) *
                     static_cast<double>(plan.batch.batch_size);
}

// A number of steps is shown as one where it is whole.
nlohmann::ordered_json Number(double value) {
  if (value == static_cast<double>(static_cast<int64_t>(value))) return static_cast<int64_t>(value);
  return value;
}

nlohmann::ordered_json LaunchAsJson(const launch::Launch& launch) {
  return {{"launcher", launch.launcher},
          {"rank", launch.rank},
          {"world_size", launch.world_size},
          {"local_rank", launch.local_rank},
          {"local_world_size", launch.local_world_size},
          {"nnodes", launch.nnodes},
          {"node_rank", launch.node_rank},
          {"master_addr", launch.master_addr},
          {"master_port", launch.master_port},
          {"spawns", launch.spawns}};
}

void PrintAsText(const nlohmann::ordered_json& plan) {
  for (const auto& [key, value] : plan.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::printf("%-18s %s\n", key.c_str(), Shown(text).c_str());
  }
}

}  // namespace

void DryRun(const RunContext& context) {
  const config::Config& config = context.config;
  report::InitializeLogging(context.launch.rank, context.launch.world_size, /*log_directory=*/"");
  for (const std::string& note : context.notes) report::LogInfo(note);
  nlohmann::ordered_json json = LaunchAsJson(context.launch);
  const at::Device device = distributed::DeviceOf(context.launch, config.ranks.backend);
  json["device"] = device.str();
  MakeDeviceImageDecoder(config, device);  // or say why not
  json["decode"] = config.data.decode;
  json["model"] = config.model.name;

  DataSets sets;
  std::unique_ptr<Task> task;
  if (config.run.mode == "train") {
    sets = OpenDataSets(config);
    task = MakeTask(config, sets.num_classes, at::kCPU);
    if (!config.model.init_weights.empty()) {
      ApplyInitialWeights(ReadInitialWeights(config).tensors, config.model, task->module(), Classifier::kMayBeginAnew);
    }
  } else {
    const TrainedWeights weights = ReadInferenceWeights(config);
    json["weights"] = weights.origin;
    task = MakeInferenceTask(config, weights, at::kCPU);
    sets.classes = ClassesOf(config, weights);
    if (config.run.mode == "eval") sets = OpenDataSets(config, sets.classes);
  }
  LookThrough(sets, config.data);
  json["parameters"] = CountParameters(task->module());
  if (task->speed_unit() == report::SpeedUnit::kImages) json["classes"] = Describe(sets.classes);
  json["train_samples"] = sets.train ? sets.train->source->size() : 0;
  json["val_samples"] = sets.val ? sets.val->source->size() : 0;
  if (sets.train) {
    const auto batches = MakeTrainBatches(*sets.train, config, context.launch.world_size);
    const Plan plan = MakePlan(config, sets.train->source->size(), context.launch.world_size, batches->units(),
                               batches->units_per_step());
    json["batch_size"] = plan.batch.batch_size;
    json["grad_accum_steps"] = plan.batch.grad_accum_steps;
    json["global_batch_size"] = plan.batch.global_batch_size;
    json["steps_per_epoch"] = Number(plan.steps_per_epoch);
    json["total_steps"] = plan.total_steps;
    json["warmup_steps"] = plan.schedule.warmup_steps;
    json["lr_peak"] = plan.schedule.peak;
    const data::SizeSchedule sizes = *data::ParseSizeSchedule(config.image.size_schedule);
    for (const data::SizeChange& change : sizes) {
      json["image_sizes"].push_back(
          {{"epoch", change.epoch}, {"size", change.size}, {"first_step", plan.FirstStepOf(change.epoch)}});
    }
    json["memory_gib"] = std::round(MemoryEstimate(config, *task, plan) / kGiB * 100) / 100;
  }
  if (config.report.log_format == "json") {
    std::printf("%s\n", json.dump().c_str());
  } else {
    PrintAsText(json);
  }
}

}  // namespace dtrain::loop
