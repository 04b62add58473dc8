// --dry_run: computes everything that a run decides before it starts, on one machine and in seconds.
#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/machine/limits.h"
#include "data/pipeline/size_schedule.h"
#include "data/shown.h"
#include "models/layers.h"
#include "trainer/checkpoint/run_lock.h"
#include "trainer/config/choices.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/plan.h"
#include "trainer/loop/step_graph.h"
#include "trainer/modes/disk_space.h"
#include "trainer/modes/require_learnable.h"
#include "trainer/modes/resume.h"
#include "trainer/modes/run.h"
#include "trainer/modes/session.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/optim/precision.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/class_balance.h"
#include "trainer/tasks/split_batches.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/module_state.h"

namespace dtrain::modes {
namespace {

constexpr char kLearningRates[] = "learning_rates";
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

int64_t CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// Estimates the memory of a rank in bytes: weights, gradients, the optimizer's state, the average, and the activations
// that the forward pass keeps for the backward pass.
double MemoryEstimate(const config::Config& config, tasks::Task& task, const loop::Plan& plan) {
  const std::vector<optim::NamedTensor> parameters = weights::ParametersOf(task.module());
  double weights = 0;
  double gradients = 0;
  for (const at::Tensor& weight : task.module().parameters()) weights += static_cast<double>(weight.nbytes());
  for (const auto& [name, parameter] : parameters) gradients += static_cast<double>(parameter.nbytes());
  const double state =
      weights + gradients + static_cast<double>(optim::OptimizerStateBytes(config.optimizer, parameters));
  const double average = config.optimizer.ema_decay > 0 ? weights : 0;
  constexpr double kSumsOfShards = 4;  // see distributed::ShardSum
  const double sums = plan.batch.elastic ? kSumsOfShards * gradients : 0;
  const auto element = static_cast<double>(c10::elementSize(optim::PrecisionNamed(config.precision.name).products));
  return state + average + sums +
         element * static_cast<double>(task.CostOfSample().activation_elements) *
             static_cast<double>(plan.batch.batch_size);
}

// Shows a whole number without decimals.
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

// The memory in bytes that the ranks of this machine could have at most, as far as it is known; on a GPU, a rank.
double MemoryOf(at::Device device) {
  if (device.is_cpu()) return static_cast<double>(data::AvailableMemory());
  return static_cast<double>(at::accelerator::getMemoryInfo(device.index()).second);
}

// Throws if the plan cannot fit. A rank that was named by hand or by another launcher may be of other machines, which
// the memory of this one does not judge.
void RequireMemory(double needed, const launch::Launch& launch, at::Device device) {
  const bool is_all_here = launch.launcher == "single" || launch.spawns == launch.world_size;
  if (!is_all_here) return;
  if (device.is_cpu()) needed *= launch.local_world_size;
  const double there = MemoryOf(device);
  if (needed <= there) return;
  char text[160];
  std::snprintf(text, sizeof(text), "training needs about %.1f GiB of memory, and %s has %.1f GiB", needed / kGiB,
                device.is_cpu() ? "this machine" : "the GPU", there / kGiB);
  throw Error(ExitCode::kOutOfMemory, text,
              "lower --batch_size (--grad_accum_steps keeps the global batch), --image_size or --tokens_per_sample");
}

// Throws what a run would throw that cannot use its folder. Returns the state.json of the checkpoint that it would
// resume from; null if there is none.
nlohmann::json TryRunDirectory(const config::Config& config) {
  const bool is_named = !config.run.dir.empty();
  const report::RunDirectory files(is_named ? std::filesystem::path(config.run.dir)
                                            : std::filesystem::path("runs") / config.model.name);
  report::ProbeRunDirectory(files);
  std::error_code unreadable;
  std::optional<checkpoint::RunLock> lock;
  if (std::filesystem::exists(files.root / "lock", unreadable)) lock.emplace(files.root);
  const auto restored = FindCheckpoint(config.run.resume, /*restarted=*/false, checkpoint::Store(files.root));
  return restored ? restored->state : nlohmann::json();
}

void PrintAsText(const nlohmann::ordered_json& plan) {
  for (const auto& [key, value] : plan.items()) {
    if (key == kLearningRates) continue;  // only in JSON, for programs that plot them
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::printf("%-18s %s\n", key.c_str(), Shown(text).c_str());
  }
}

}  // namespace

void DryRun(const RunContext& given) {
  RunContext context = given;
  const config::Config& config = context.config;
  if (config.run.mode == "export") return Export(context);  // stops before it writes
  report::InitializeLogging(context.launch.rank, context.launch.world_size, /*log_directory=*/"");
  for (const std::string& note : context.notes) report::LogInfo(note);
  nlohmann::json state;
  if (context.launch.rank == 0 && config.run.mode == "train") state = TryRunDirectory(config);
  KeepSamples(state, context.config);
  const std::string adapted = KeepGlobalBatch(state, context.launch.world_size, context.config);
  if (!adapted.empty()) report::LogInfo(adapted);
  nlohmann::ordered_json json = LaunchAsJson(context.launch);
  const at::Device device = device::DeviceOf(context.launch, config.ranks.backend, config.precision.name);
  json["device"] = device.str();
  json["model"] = config.model.name;
  const tasks::TaskKind& kind = tasks::KindOf(config);
  json["task"] = kind.name();
  double needed = 0;  // bytes of memory of a rank
  DiskNeeds disk;

  tasks::DataSets sets;
  std::unique_ptr<tasks::Task> task;
  if (config.run.mode == "train") {
    sets = kind.OpenData(config, /*known=*/{}, /*indexes=*/nullptr);
    {
      const models::ShapesAlone shapes;  // a dry run computes nothing
      task = kind.MakeTask(config, sets, at::kMeta);
    }
    task->UseClassWeights(tasks::ClassWeights(config.optimizer.class_weights, sets));
    if (!config.model.init_weights.empty()) {
      weights::BeginWithInitialWeights(config, sets.classes, task->module());
    }
  } else {
    const weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
    json["weights"] = weights.origin;
    sets.classes = kind.ClassesOf(config, weights);
    if (config.run.mode == "eval") sets = kind.OpenData(config, sets.classes, /*indexes=*/nullptr);
    task = kind.MakeInferenceTask(config, weights, sets, at::kCPU);
  }
  loop::RequireBestMetric(config.run.best_metric, *task);
  tasks::LookThrough(sets, config);
  json["parameters"] = CountParameters(task->module());
  if (sets.classes.count > 0) json["classes"] = weights::Describe(sets.classes);
  json["train_samples"] = sets.train ? sets.train->source->size() : 0;
  int64_t val_samples = 0;
  for (const tasks::DataSplit* split : tasks::ValidationSets(sets)) val_samples += split->source->size();
  json["val_samples"] = val_samples;
  if (sets.train) {
    const auto batches = tasks::MakeTrainBatches(*sets.train, config, context.launch.world_size);
    const loop::Plan plan = loop::MakePlan(config, sets.train->source->size(), context.launch.world_size,
                                           batches->units(), batches->units_per_step(), tasks::NumShards(*sets.train));
    RequireLearnable(config, plan, sets);
    const loop::GraphConditions graph_conditions{
        .device = device, .elastic = plan.batch.elastic, .task = task->WhyNotRecorded()};
    loop::RequireGraphs(config.ranks.cuda_graphs, graph_conditions);
    if (device.is_cuda()) json["cuda_graphs"] = loop::DescribeGraphs(config.ranks.cuda_graphs, graph_conditions);
    if (!plan.WarningOfWarmup().empty()) report::LogWarning(plan.WarningOfWarmup());
    json["batch_size"] = plan.batch.batch_size;
    json["grad_accum_steps"] = plan.batch.grad_accum_steps;
    json["global_batch_size"] = plan.batch.global_batch_size;
    if (config.batch.elastic_shards) json["elastic_shards"] = *config.batch.elastic_shards;
    json["steps_per_epoch"] = Number(plan.steps_per_epoch);
    json["total_steps"] = plan.total_steps;
    json["warmup_steps"] = plan.WarmupSteps();
    json["lr_peak"] = plan.schedule.peak;
    json["lr_schedule"] = config.schedule.name;
    json["optimizer"] = config::DescribeOptimizer(config.optimizer);
    if (task->speed_unit() == report::SpeedUnit::kImages) {
      json["image_size"] = config.image.size;
      json["augmentation"] = config::DescribeAugmentation(config.image, DefaultAugment(*sets.train));
    }
    json["precision"] = config.precision.name;
    json[kLearningRates] = LearningRates(plan);
    const data::SizeSchedule sizes = *data::ParseSizeSchedule(config.image.size_schedule);
    for (const data::SizeChange& change : sizes) {
      json["image_sizes"].push_back(
          {{"epoch", change.epoch}, {"size", change.size}, {"first_step", plan.FirstStepOf(change.epoch)}});
    }
    const bool trains = config.run.mode == "train";
    if (!state.is_null()) {
      const nlohmann::json identity = loop::RunIdentity(config, plan, sets);
      const nlohmann::json kept = KeptState(given, config, identity, sets, *given.config.batch.batch_size);
      RequireNoneLeftOut(ProgressOf(state, kept, config.data.allow_dataset_change), plan);
    }
    const double estimate = MemoryEstimate(config, *task, plan);
    if (trains) needed = estimate;
    json["memory_gib"] = std::round(estimate / kGiB * 100) / 100;
    disk = DiskNeedsOf(config, *task, sets.val.has_value());
    json["disk_gib"] = std::round(disk.whole / kGiB * 100) / 100;
  }
  if (config.report.log_format == "json") {
    std::printf("%s\n", json.dump().c_str());
  } else {
    PrintAsText(json);
  }
  RequireMemory(needed, context.launch, device);
  const std::string& folder = config.run.dir;
  if (config.run.mode == "train" && context.launch.rank == 0) RequireDisk(folder.empty() ? "." : folder, disk);
}

}  // namespace dtrain::modes
