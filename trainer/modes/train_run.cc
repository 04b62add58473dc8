// --mode=train: opens the data, connects to the other ranks, restores the run, trains.
#include <ATen/Context.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/count_of.h"
#include "models/layers.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/config_json.h"
#include "trainer/device/device.h"
#include "trainer/distributed/rendezvous.h"
#include "trainer/errors.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/spike_log.h"
#include "trainer/loop/step_graph.h"
#include "trainer/loop/trainer.h"
#include "trainer/loop/training_state.h"
#include "trainer/modes/require_learnable.h"
#include "trainer/modes/resume.h"
#include "trainer/modes/run.h"
#include "trainer/modes/session.h"
#include "trainer/report/log.h"
#include "trainer/tasks/class_balance.h"
#include "trainer/tasks/data_cache.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::modes {
namespace {

// The checkpoints of the run, which only rank 0 reads and writes.
struct FirstRank {
  FirstRank(const RunContext& context, const report::RunDirectory& files, bool restarted)
      : store(files.root), spikes(files.spikes_jsonl) {
    store.RemoveLeftovers();
    restored = FindCheckpoint(context.config.run.resume, restarted, store);
    if (restored) AddRewinds(spikes.RewindsTo(restored->step), restored->state);
  }
  // The checkpoint belongs to this run, and the run has gone back to it: drops what came after it.
  void DropLater() {
    const int64_t step = restored ? restored->step : -1;
    store.SetAsideNewerThan(step);
    spikes.Resume(step);
  }
  void StartWriter(const RunContext& context, const checkpoint::Metadata& model_metadata) {
    checkpoint::AsyncWriterOptions options;
    options.keep_checkpoints = context.config.run.keep_checkpoints;
    options.model_metadata = model_metadata;
    options.warn = [](const std::string& message) { report::LogWarning(message); };
    writer = std::make_unique<checkpoint::AsyncWriter>(store, options);
  }
  checkpoint::Store store;
  loop::SpikeLog spikes;
  std::optional<checkpoint::Snapshot> restored;
  std::unique_ptr<checkpoint::AsyncWriter> writer;
};

// Returns the metadata of the run's files of weights.
checkpoint::Metadata MetadataOf(const config::Config& config, const tasks::DataSets& data) {
  checkpoint::Metadata metadata = {{"format", "pt"}};
  weights::AddTo(metadata, data.classes);
  weights::AddSettings(metadata, config);
  if (config.data.val_fraction > 0) metadata[weights::kHeldOutKey] = data.val->source->fingerprint();
  tasks::KindOf(config).AddMetadata(metadata, config, data);
  return metadata;
}

// Returns the state.json of rank 0's checkpoint on every rank; null if there is none. `key` is another one each time.
nlohmann::json SharedState(Session& session, const FirstRank* first, const std::string& key) {
  nlohmann::json state;
  if (first != nullptr && first->restored) state = first->restored->state;
  if (session.rendezvous) state = nlohmann::json::parse(session.rendezvous->ShareFromFirst(key, state.dump()));
  return state;
}

// Returns the progress of rank 0's checkpoint on every rank; that of a fresh run if there is none. Throws if the
// checkpoint belongs to another run or is damaged.
loop::Progress SharedProgress(const nlohmann::json& state, const FirstRank* first, const nlohmann::json& kept,
                              bool allow_dataset_change) {
  if (state.is_null()) return {};
  loop::Progress progress = ProgressOf(state, kept, allow_dataset_change);
  if (first != nullptr && progress.step != first->restored->step) {
    throw StorageError("the checkpoint's state.json is of step " + std::to_string(progress.step) +
                           ", its manifest of step " + std::to_string(first->restored->step),
                       "name an earlier checkpoint with --resume=PATH, or start anew with --resume=none");
  }
  const std::string changes = config::Changes(state.value("config", nlohmann::json()), kept.at("config"));
  if (first != nullptr && !changes.empty())
    report::LogWarning("changed since the checkpoint: " + changes + "; the new values are used from now on");
  return progress;
}

// For --resume=none: moves the files of an earlier run aside, so that none of them is mixed with those of the new run.
void StartAnew(const report::RunDirectory& files) {
  if (const auto aside = report::MoveRunAside(files)) {
    report::LogInfo("--resume=none: the earlier run in " + files.root.string() + " was moved to " + aside->string());
  }
}

void WriteRunFiles(const report::RunDirectory& files, const RunContext& context, const data::Classes& classes,
                   int64_t first_step) {
  nlohmann::ordered_json json = config::ToJson(context.config);
  json[config::kStartKey] = config::StartRecord(context.start, context.config);
  report::WriteConfig(files, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", first_step);
  if (!classes.names.empty()) report::WriteTextFile(files.classes, weights::ClassesText(classes.names));
}

std::string HowToGoOn(const config::Config& config, const loop::Plan& plan, const std::string& stopped_early) {
  if (!stopped_early.empty()) {
    return "this run ended early: " + stopped_early +
           "; to continue it, give a larger --stop_after_epochs_without_gain (or 0); to start anew, give another "
           "--run_dir or --resume=none";
  }
  const bool by_steps = config.batch.max_steps && *config.batch.max_steps == plan.total_steps;
  return "this run is finished: all of its steps (" + std::to_string(plan.total_steps) + ") are done; " +
         (by_steps ? "to continue it, raise --max_steps (and --epochs)" : "to continue it, raise --epochs") +
         "; to start anew, give another --run_dir or --resume=none";
}

// Returns what --deterministic promises; empty if it is off.
std::string DescribeDeterminism(const config::Config& config, const config::BatchSizes& batch, int world_size) {
  if (config.ranks.deterministic == "run") return "run: the same bits in every run on such a machine";
  if (!batch.elastic) return "";
  const int64_t shards = batch.shards, fewest = shards / world_size;
  const bool unequal = shards % world_size != 0;
  return "elastic: " + CountOf(shards, "shard") + " of the global batch, " + std::to_string(fewest) +
         (unequal ? " or " + std::to_string(fewest + 1) : "") + " on each rank; the same bits on any number of ranks";
}

report::Banner MakeBanner(const RunContext& context, const loop::Plan& plan, const tasks::DataSets& data,
                          const torch::nn::Module& model, const report::RunDirectory& files, at::Device device) {
  report::Banner banner;
  banner.model = context.config.model.name;
  banner.task = tasks::KindOf(context.config).name();
  for (const auto& parameter : model.parameters()) {
    banner.parameters += parameter.numel();
    if (!parameter.requires_grad()) banner.frozen += parameter.numel();
  }
  banner.device = device::Describe(device);
  banner.world_size = context.launch.world_size;
  banner.deterministic = DescribeDeterminism(context.config, plan.batch, context.launch.world_size);
  banner.train_samples = plan.train_samples;
  for (const tasks::DataSplit* split : tasks::ValidationSets(data)) banner.val_samples += split->source->size();
  if (data.classes.count > 0) banner.classes = weights::Describe(data.classes);
  banner.global_batch_size = plan.batch.global_batch_size;
  banner.total_steps = plan.total_steps;
  banner.epochs = plan.EpochAt(plan.total_steps);
  banner.run_directory = files.root.string();
  return banner;
}

}  // namespace

void Train(const RunContext& given) {
  RunContext context = given;
  Session session(context);
  const config::Config& config = context.config;
  const tasks::TaskKind& kind = tasks::KindOf(config);
  const bool is_first = context.launch.rank == 0;
  const report::RunDirectory files(session.run_directory);

  std::optional<FirstRank> first;
  if (is_first) first.emplace(context, files, session.restarted);
  const nlohmann::json state = SharedState(session, first ? &*first : nullptr, "state");
  const std::string adapted = KeepGlobalBatch(state, context.launch.world_size, context.config);
  if (is_first && !adapted.empty()) report::LogInfo(adapted);

  tasks::DataSets data = session.OpenData();
  const auto batches = tasks::MakeTrainBatches(*data.train, config, context.launch.world_size);
  const loop::Plan plan = loop::MakePlan(config, data.train->source->size(), context.launch.world_size,
                                         batches->units(), batches->units_per_step(), tasks::NumShards(*data.train));
  RequireLearnable(config, plan, data);
  const nlohmann::json identity = loop::RunIdentity(config, plan, data);
  const nlohmann::json kept = KeptState(config, identity, data, *given.config.batch.batch_size);
  if (first) first->StartWriter(context, MetadataOf(config, data));

  nlohmann::json common = identity;
  common["data_val_fingerprint"] = tasks::ValFingerprint(data);
  session.Connect(common);
  if (first && config.run.resume == "none" && !session.restarted) StartAnew(files);
  if (config.data.cache == "ram") tasks::KeepInMemory(data, session.rendezvous.get());
  const auto task = kind.MakeTask(config, data, session.device);
  loop::RequireBestMetric(config.run.best_metric, *task);
  task->UseClassWeights(tasks::ClassWeights(config.optimizer.class_weights, data));
  torch::nn::Module& model = task->module();
  if (config.ranks.sync_bn) {
    models::SynchronizeBatchNorm(model, [&session](at::Tensor& sums) { session.communicator->Sum(sums); });
  }
  const auto step_graph =
      loop::MakeStepGraph(config.ranks.cuda_graphs,
                          {.device = session.device, .elastic = plan.batch.elastic, .task = task->WhyNotRecorded()});
  const loop::Progress progress =
      SharedProgress(state, first ? &*first : nullptr, kept, config.data.allow_dataset_change);
  const std::string stopped_early = plan.WhyStopsEarly(progress);
  const bool finished = progress.step >= plan.total_steps || !stopped_early.empty();
  // Only now is it known that the checkpoint belongs to this run. Refusing it would have left the directory as it was.
  if (first) first->DropLater();
  if (is_first) {
    session.control->Enter(control::Phase::kSaving);
    WriteRunFiles(files, context, data.classes, progress.step);
    kind.KeepFiles(config, files.root);
    session.control->Enter(control::Phase::kStarting);
  }
  if (is_first && progress.step == 0 && !config.model.init_weights.empty()) {
    weights::ApplyInitialWeights(weights::ReadInitialWeights(config).tensors, config.model, model,
                                 weights::Classifier::kMayBeginAnew);
  }
  if (is_first && !finished && !plan.WarningOfWarmup().empty()) report::LogWarning(plan.WarningOfWarmup());
  if (is_first && progress.step == 0 && !config.model.freeze.empty() && config.model.init_weights.empty()) {
    report::LogWarning(
        "--freeze keeps weights that were drawn at random: --init_weights=FILE starts from trained ones");
  }

  loop::Reporter reporter(
      config.report, context.launch.rank,
      {.model = config.model.name, .world_size = context.launch.world_size, .total_steps = plan.total_steps},
      is_first ? std::optional(files) : std::nullopt,
      {.config = config::ToJson(config), .hyperparameters = config::TrainingPart(config)});
  reporter.Start(MakeBanner(context, plan, data, model, files, session.device));
  if (finished && is_first) report::LogInfo(HowToGoOn(config, plan, stopped_early));
  if (config.report.clear_log && !session.restarted && !finished) reporter.Clear();
  reporter.Resume(progress.step, plan.EpochAt(progress.step));
  const auto read_last_save = [&, rewinds = 0]() mutable -> loop::LastSave {
    if (first) first->restored = FindCheckpoint("auto", /*restarted=*/false, first->store);
    const nlohmann::json saved =
        SharedState(session, first ? &*first : nullptr, "state after rewind " + std::to_string(++rewinds));
    if (first) first->DropLater();
    return {ProgressOf(saved, kept, /*allow_dataset_change=*/true),
            first ? std::exchange(first->restored, std::nullopt) : std::nullopt};
  };
  loop::Trainer trainer({config, plan, data, *batches, *task, *session.communicator, *session.control, reporter, files,
                         session.device, step_graph.get(), kept, read_last_save},
                        first ? first->writer.get() : nullptr);
  trainer.Restore(progress, first && first->restored ? &*first->restored : nullptr);
  if (first) first->restored.reset();
  context.status->rank->step = progress.step;
  trainer.ReportStepsTo(&context.status->rank->step);
  const report::RunResult result = trainer.Run();
  session.Leave();
  reporter.Finish(result, /*keeps_result=*/finished);
}

}  // namespace dtrain::modes
