// --mode=train: opens the data, connects to the other ranks, restores the run, trains.
#include <ATen/Context.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/count_of.h"
#include "models/layers.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/config_json.h"
#include "trainer/control/clock.h"
#include "trainer/control/stall_watch.h"
#include "trainer/device/device.h"
#include "trainer/distributed/rendezvous.h"
#include "trainer/errors.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/step_graph.h"
#include "trainer/loop/trainer.h"
#include "trainer/loop/training_state.h"
#include "trainer/modes/disk_space.h"
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

// The checkpoints of the run. Rank 0 alone reads and writes them; the other ranks learn from it what state.json says.
class RunCheckpoints {
 public:
  // A collective. Finds the checkpoint with which the run goes on, and gives `config` its batch sizes.
  RunCheckpoints(const Session& session, config::Config& config) {
    if (session.context.launch.rank == 0) {
      first_.emplace(session.run_directory);
      first_->store.RemoveLeftovers();
      first_->found = FindCheckpoint(config.run.resume, session.restarted, first_->store);
    }
    const nlohmann::json state = first_ && first_->found ? first_->found->state : nlohmann::json();
    state_ = session.rendezvous == nullptr
                 ? state
                 : nlohmann::json::parse(session.rendezvous->ShareFromFirst("state", state.dump()));
    KeepSamples(state_, config);
    const std::string adapted = KeepGlobalBatch(state_, session.context.launch.world_size, config);
    if (first_ && !adapted.empty()) report::LogInfo(adapted);
  }

  // Null on the other ranks.
  checkpoint::AsyncWriter* writer() const { return first_ ? first_->writer.get() : nullptr; }

  void StartWriter(int64_t keep_checkpoints, const checkpoint::Metadata& model_metadata) {
    if (!first_) return;
    checkpoint::AsyncWriterOptions options;
    options.keep_checkpoints = keep_checkpoints;
    options.model_metadata = model_metadata;
    options.warn = [](const std::string& message) { report::LogWarning(message); };
    first_->writer = std::make_unique<checkpoint::AsyncWriter>(first_->store, options);
  }

  // Returns the checkpoint's progress, or that of a fresh run. Throws if it belongs to another run or is damaged.
  loop::Progress ProgressOfRun(const nlohmann::json& kept, bool allow_dataset_change) const {
    if (state_.is_null()) return {};
    loop::Progress progress = ProgressOf(state_, kept, allow_dataset_change);
    if (first_ && progress.step != first_->found->step) {
      throw StorageError("the checkpoint's state.json is of step " + std::to_string(progress.step) +
                             ", its manifest of step " + std::to_string(first_->found->step),
                         "name an earlier checkpoint with --resume=PATH, or start anew with --resume=none");
    }
    const std::string changes = config::Changes(state_.value("config", nlohmann::json()), kept.at("config"));
    if (first_ && !changes.empty()) {
      report::LogWarning("changed since the checkpoint: " + changes + "; the new values are used from now on");
    }
    return progress;
  }

  // The checkpoint belongs to this run, and the run has gone back to it: drops what came after it.
  void DropLater() {
    if (!first_) return;
    first_->store.SetAsideNewerThan(first_->found ? first_->found->step : -1);
  }

  // Returns the tensors, once; empty on the other ranks and in a fresh run.
  std::optional<checkpoint::Snapshot> TakeSnapshot() {
    return first_ ? std::exchange(first_->found, std::nullopt) : std::nullopt;
  }

 private:
  struct FirstRank {
    explicit FirstRank(const std::filesystem::path& run_directory) : store(run_directory) {}

    checkpoint::Store store;
    std::optional<checkpoint::Snapshot> found;
    std::unique_ptr<checkpoint::AsyncWriter> writer;
  };

  std::optional<FirstRank> first_;  // empty on the other ranks
  nlohmann::json state_;            // state.json of the checkpoint, on every rank; null if there is none
};

// Returns the metadata of the run's files of weights.
checkpoint::Metadata MetadataOf(const config::Config& config, const tasks::DataSets& data) {
  checkpoint::Metadata metadata = {{"format", "pt"}};
  weights::AddTo(metadata, data.classes);
  weights::AddSettings(metadata, config);
  metadata[weights::kTrainedOnKey] = data.train->whole_fingerprint();
  if (data.val && !data.val->whole.empty()) metadata[weights::kHeldOutKey] = data.val->source->fingerprint();
  tasks::KindOf(config).AddMetadata(metadata, config, data);
  return metadata;
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
  json[config::kStartKey]["world_size"] = context.launch.world_size;
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

// The stages of a training. Each takes what the one before returns, so that another order does not compile.

// What is known before the ranks meet.
struct PlannedRun {
  tasks::DataSets data;
  std::unique_ptr<tasks::SplitBatches> batches;
  loop::Plan plan;
  nlohmann::json kept;  // what state.json keeps beside the progress
};

PlannedRun PlanRun(const Session& session, int64_t asked_batch_size, RunCheckpoints& checkpoints) {
  const config::Config& config = session.context.config;
  const int world = session.context.launch.world_size;
  tasks::DataSets data = session.OpenData();
  auto batches = tasks::MakeTrainBatches(*data.train, config, world);
  const loop::Plan plan = loop::MakePlan(config, data.train->source->size(), world, batches->units(),
                                         batches->units_per_step(), tasks::NumShards(*data.train));
  RequireLearnable(config, plan, data);
  nlohmann::json kept =
      KeptState(session.context, config, loop::RunIdentity(config, plan, data), data, asked_batch_size);
  checkpoints.StartWriter(config.run.keep_checkpoints, MetadataOf(config, data));
  return {std::move(data), std::move(batches), plan, std::move(kept)};
}

// A collective: the ranks meet, and see that they have planned the same.
distributed::Communicator& Meet(Session& session, PlannedRun& run) {
  const RunContext& context = session.context;
  nlohmann::json common = run.kept.at("run");  // the identity
  common["data_val_fingerprint"] = tasks::ValFingerprint(run.data);
  session.Connect(common);
  if (context.launch.rank == 0 && context.config.run.resume == "none" && !session.restarted) {
    StartAnew(report::RunDirectory(session.run_directory));
  }
  if (context.config.data.cache == "ram") tasks::KeepInMemory(run.data, session.rendezvous.get());
  return *session.communicator;
}

// What learns: the task with its model, and how its steps run.
struct Learner {
  std::unique_ptr<tasks::Task> task;
  std::unique_ptr<loop::StepGraph> step_graph;  // null: steps run unrecorded
};

Learner MakeLearner(const Session& session, const PlannedRun& run, distributed::Communicator& communicator) {
  const config::Config& config = session.context.config;
  auto task = tasks::KindOf(config).MakeTask(config, run.data, session.device);
  loop::RequireBestMetric(config.run.best_metric, *task);
  task->UseClassWeights(tasks::ClassWeights(config.optimizer.class_weights, run.data));
  if (config.ranks.sync_bn) {
    models::SynchronizeBatchNorm(task->module(), [&communicator](at::Tensor& sums) { communicator.Sum(sums); });
  }
  const loop::GraphConditions conditions{
      .device = session.device, .elastic = run.plan.batch.elastic, .task = task->WhyNotRecorded()};
  return {std::move(task), loop::MakeStepGraph(config.ranks.cuda_graphs, conditions)};
}

// Where the run begins or goes on.
struct Beginning {
  loop::Progress progress;
  std::string stopped_early;  // why it has ended before its last step; empty: it has not
  bool finished = false;
};

// Only when all is made is it known that the checkpoint belongs to this run: refusing it has left the directory as it
// was. Now rank 0 writes the run's first files, and a fresh model takes its initial weights.
Beginning BeginRun(const Session& session, const PlannedRun& run, const Learner& learner, RunCheckpoints& checkpoints) {
  const config::Config& config = session.context.config;
  Beginning beginning;
  beginning.progress = checkpoints.ProgressOfRun(run.kept, config.data.allow_dataset_change);
  RequireNoneLeftOut(beginning.progress, run.plan);
  const int64_t step = beginning.progress.step;
  beginning.stopped_early = run.plan.WhyStopsEarly(beginning.progress);
  beginning.finished = step >= run.plan.total_steps || !beginning.stopped_early.empty();
  checkpoints.DropLater();
  if (session.context.launch.rank != 0) return beginning;

  const report::RunDirectory files(session.run_directory);
  if (!beginning.finished) {
    RequireDisk(files.root, DiskNeedsOf(config, *learner.task, run.data.val.has_value()));
  }
  session.control->Enter(control::Phase::kSaving);
  WriteRunFiles(files, session.context, run.data.classes, step);
  tasks::KindOf(config).KeepFiles(config, files.root);
  session.control->Enter(control::Phase::kStarting);
  const bool takes_weights = !config.model.init_weights.empty();
  if (step == 0 && takes_weights) {
    weights::BeginWithInitialWeights(config, run.data.classes, learner.task->module());
  }
  if (!beginning.finished && !run.plan.WarningOfWarmup().empty()) report::LogWarning(run.plan.WarningOfWarmup());
  if (step == 0 && !config.model.freeze.empty() && !takes_weights) {
    report::LogWarning(
        "--freeze keeps weights that were drawn at random: --init_weights=FILE starts from trained ones");
  }
  return beginning;
}

// Returns what tells whether this machine goes on; null but on its first rank.
std::function<report::Health()> HealthOf(const Session& session) {
  if (session.context.launch.local_rank != 0) return nullptr;
  const auto liveness = std::make_shared<control::Liveness>(session.context.config.ranks.comm_timeout_seconds);
  return [liveness, control = session.control] {
    const auto answer = liveness->Ask(control->position(), control->awaits_save(), control::Clock::now());
    return report::Health{answer.alive, answer.text};
  };
}

// A few bad records do not end a run; at its end it says how many there were.
void SayBadRecords(const Session& session, const tasks::DataSets& data, const report::RunDirectory& files) {
  if (session.context.launch.rank != 0) return;
  int64_t bad = 0;
  for (const tasks::DataSplit* split : tasks::AllSplits(data)) bad += session.control->bad_records(split->name);
  if (bad == 0) return;
  report::LogWarning(CountOf(bad, "record") +
                     " could not be read: training took others for them, validation left them out; " +
                     files.quarantine(0).string() +
                     " names them, and dtrain_data verify --move_bad_to=DIR takes bad image files out of the data");
}

// Logs where the run begins.
void Announce(const Session& session, const PlannedRun& run, const Learner& learner, const Beginning& beginning,
              loop::Reporter& reporter) {
  const RunContext& context = session.context;
  const report::RunDirectory files(session.run_directory);
  reporter.Start(MakeBanner(context, run.plan, run.data, learner.task->module(), files, session.device));
  if (beginning.finished && context.launch.rank == 0) {
    report::LogInfo(HowToGoOn(context.config, run.plan, beginning.stopped_early));
  }
  if (context.config.report.clear_log && !session.restarted && !beginning.finished) reporter.Clear();
  reporter.Resume(beginning.progress.step, run.plan.EpochAt(beginning.progress.step));
}

}  // namespace

void Train(const RunContext& given) {
  RunContext context = given;
  const config::Config& config = context.config;
  Session session(context);
  RunCheckpoints checkpoints(session, context.config);
  PlannedRun run = PlanRun(session, *given.config.batch.batch_size, checkpoints);
  distributed::Communicator& communicator = Meet(session, run);
  const Learner learner = MakeLearner(session, run, communicator);
  const Beginning beginning = BeginRun(session, run, learner, checkpoints);

  const report::RunDirectory files(session.run_directory);
  loop::Reporter reporter(
      config.report, context.launch.rank,
      {.model = config.model.name, .world_size = context.launch.world_size, .total_steps = run.plan.total_steps},
      context.launch.rank == 0 ? std::optional(files) : std::nullopt,
      {.config = config::ToJson(config), .hyperparameters = config::TrainingPart(config)}, HealthOf(session));
  Announce(session, run, learner, beginning, reporter);
  loop::Trainer trainer({config, run.plan, run.data, *run.batches, *learner.task, communicator, *session.control,
                         reporter, files, session.device, learner.step_graph.get(), run.kept},
                        checkpoints.writer());
  {
    const std::optional<checkpoint::Snapshot> snapshot = checkpoints.TakeSnapshot();
    trainer.Restore(beginning.progress, snapshot ? &*snapshot : nullptr);
  }
  context.status->rank->step = beginning.progress.step;
  trainer.ReportStepsTo(&context.status->rank->step);
  const report::RunResult result = trainer.Run();
  SayBadRecords(session, run.data, files);
  session.Leave();
  reporter.Finish(result, /*keeps_result=*/beginning.finished);
}

}  // namespace dtrain::modes
