// --dry_run: computes everything that a run decides before it starts, on one machine and in seconds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/pipeline/sampler.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "trainer/checkpoint/run_lock.h"
#include "trainer/config/choices.h"
#include "trainer/config/resolve.h"
#include "trainer/device/device.h"
#include "trainer/modes/needs.h"
#include "trainer/modes/open.h"
#include "trainer/modes/resume.h"
#include "trainer/modes/run.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::modes {
namespace {

constexpr char kLearningRates[] = "learning_rates";

int64_t CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// Shows a whole number without decimals.
nlohmann::ordered_json Number(double value) {
  if (value == static_cast<double>(static_cast<int64_t>(value))) return static_cast<int64_t>(value);
  return value;
}

nlohmann::ordered_json LaunchAsJson(const launch::Launch& launch) {
  return {{"launcher", launch.launcher.name},
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

// Returns pairs (steps done, learning rate of the next step) for up to 2 × kMost evenly spaced steps and the last one.
nlohmann::ordered_json LearningRates(const loop::Plan& plan) {
  constexpr int64_t kMost = 1000;
  const int64_t stride = std::max<int64_t>(1, plan.total_steps / kMost);
  nlohmann::ordered_json rates = nlohmann::ordered_json::array();
  for (int64_t step = 0; step < plan.total_steps; step += stride) rates.push_back({step, plan.LearningRate(step)});
  if ((plan.total_steps - 1) % stride != 0) {
    rates.push_back({plan.total_steps - 1, plan.LearningRate(plan.total_steps - 1)});
  }
  return rates;
}

// The meaning of --augment=auto for these records.
const char* DefaultAugment(const tasks::DataSplit& train) {
  return train.source->kind() == data::RecordKind::kPixels ? "none" : "basic";
}

// Shows bytes as GiB with two decimals.
double Gibibytes(double bytes) { return std::round(bytes / kGiB * 100) / 100; }

// Throws what a run would throw that cannot use its folder. Returns the state.json of the checkpoint that it would
// resume from; null if there is none.
nlohmann::json TryRunDirectory(const config::Config& config) {
  const bool is_named = !config.run.dir.empty();
  const report::RunDirectory files(is_named ? std::filesystem::path(config.run.dir)
                                            : std::filesystem::path(config::kRuns) / config.model.name);
  report::ProbeRunDirectory(files);
  std::error_code unreadable;
  std::optional<checkpoint::RunLock> lock;
  if (std::filesystem::exists(files.root / "lock", unreadable)) lock.emplace(files.root);
  const auto restored = FindCheckpoint(config.run.resume, /*restarted=*/false, checkpoint::Store(files.root));
  return restored ? restored->state : nlohmann::json();
}

// What a training does before its first step, beyond opening.
void TryToStart(const RunContext& context, const config::Config& config, const Opened& run, at::Device device,
                const nlohmann::json& state) {
  loop::RequireGraphs(config.ranks.cuda_graphs, WhyNotRecorded(run, device));
  if (!state.is_null()) {
    const nlohmann::json kept = KeptState(context, config, run.plan, run.data);
    ProgressOf(state, kept, config.data.allow_dataset_change);
  }
  if (!config.model.init_weights.empty()) {
    weights::BeginWithInitialWeights(config, run.data.classes, run.data.scale, run.task->module());
  }
  if (!run.plan.WarningOfWarmup().empty()) report::LogWarning(run.plan.WarningOfWarmup());
}

// Adds what is known of the model and the data.
void AddModel(const Opened& run, nlohmann::ordered_json& json) {
  json["parameters"] = CountParameters(run.task->module());
  if (run.data.classes.count > 0) json["classes"] = weights::Describe(run.data.classes);
  json["train_samples"] = run.data.train ? run.data.train->source->size() : 0;
  json["val_samples"] = ValidationSamples(run.data);
}

void AddPlan(const config::Config& config, const Opened& run, at::Device device, nlohmann::ordered_json& json) {
  const loop::Plan& plan = run.plan;
  if (device.is_cuda()) {
    json["cuda_graphs"] = loop::DescribeGraphs(config.ranks.cuda_graphs, WhyNotRecorded(run, device));
  }
  json["batch_size"] = plan.batch.batch_size;
  json["grad_accum_steps"] = plan.batch.grad_accum_steps;
  json["global_batch_size"] = plan.batch.global_batch_size;
  if (config.batch.elastic_shards) json["elastic_shards"] = *config.batch.elastic_shards;
  json["steps_per_epoch"] = Number(plan.steps_per_epoch);
  json["total_steps"] = plan.total_steps;
  json["warmup_steps"] = plan.WarmupSteps();
  json["lr_peak"] = plan.schedule.peak;
  json["lr_schedule"] = config.schedule.name;
  json["optimizer"] = config::DescribeOptimizer(config);
  if (run.task->speed_unit() == report::SpeedUnit::kImages) {
    json["image_size"] = config.image.size;
    json["augmentation"] = config::DescribeAugmentation(config, DefaultAugment(*run.data.train));
  }
  json["precision"] = config.precision.name;
  json[kLearningRates] = LearningRates(plan);
  json[report::kSmallerIsBetter] = run.judgement.smaller_is_better;
  const data::SizeSchedule sizes = *data::ParseSizeSchedule(config.image.size_schedule);
  for (const data::SizeChange& change : sizes) {
    json["image_sizes"].push_back(
        {{"epoch", change.epoch}, {"size", change.size}, {"first_step", plan.FirstStepOf(change.epoch)}});
  }
}

void PrintAsText(const nlohmann::ordered_json& plan) {
  for (const auto& [key, value] : plan.items()) {
    if (key == kLearningRates || key == report::kSmallerIsBetter) continue;  // only in JSON, for programs
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::printf("%-18s %s\n", key.c_str(), Shown(text).c_str());
  }
}

}  // namespace

void DryRun(const RunContext& context) {
  const bool trains = context.config.run.mode == "train", is_first = context.launch.rank == 0;
  if (context.config.run.mode == "export") return Export(context);  // stops before it writes
  OpenLog(context);
  nlohmann::json state;
  if (trains && is_first) state = TryRunDirectory(context.config);
  const config::Config config = ConfigOfRun(context, state);
  const at::Device device = device::DeviceOf(context.launch, config.ranks.backend, config.precision.name);
  Opened run = Open(config, context.launch, /*session=*/nullptr);
  MakeTask(config, trains ? at::kMeta : at::kCPU, run);
  if (trains) TryToStart(context, config, run, device, state);

  nlohmann::ordered_json json = LaunchAsJson(context.launch);
  json["device"] = device.str();
  json["model"] = config.model.name;
  json["task"] = tasks::KindOf(config).name();
  if (!trains) json["weights"] = run.weights.origin;
  AddModel(run, json);
  double memory = 0;
  DiskNeeds disk;
  if (trains) {
    AddPlan(config, run, device, json);
    memory = MemoryNeedOf(config, *run.task, run.plan.batch);
    disk = DiskNeedsOf(config, *run.task, run.data.val.has_value());
    json["memory_gib"] = Gibibytes(memory);
    json["disk_gib"] = Gibibytes(disk.whole);
  }
  if (config.report.log_format == "json") {
    std::printf("%s\n", JsonText(json).c_str());
  } else {
    PrintAsText(json);
  }
  if (!trains) return;
  RequireMemory(memory, context.launch, device);
  if (is_first) RequireDisk(config.run.dir.empty() ? "." : config.run.dir, disk);
}

}  // namespace dtrain::modes
