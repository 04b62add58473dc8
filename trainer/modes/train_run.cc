// --mode=train: opens the data, connects to the other ranks, restores the run, trains.
#include <ATen/Context.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "data/joined.h"
#include "data/outputs.h"
#include "data/shallow_json.h"
#include "data/storage.h"
#include "models/layers.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/run_lock.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/config_json.h"
#include "trainer/control/stall_watch.h"
#include "trainer/device/device.h"
#include "trainer/distributed/rendezvous.h"
#include "trainer/errors.h"
#include "trainer/loop/trainer.h"
#include "trainer/loop/training_state.h"
#include "trainer/modes/needs.h"
#include "trainer/modes/open.h"
#include "trainer/modes/resume.h"
#include "trainer/modes/run.h"
#include "trainer/modes/session.h"
#include "trainer/report/log.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::modes {
namespace {

// Moves the files of an earlier run aside, so that none of them is mixed with those of this one.
// `init_weights`: where this one's weights come from, perhaps; it cannot be there any more afterwards.
void StartAnew(const report::RunDirectory& files, const std::string& init_weights, const std::string& why) {
  std::error_code missing;
  const auto place = std::filesystem::weakly_canonical(init_weights, missing)
                         .lexically_relative(std::filesystem::weakly_canonical(files.root, missing));
  const std::string first = place.empty() ? ".." : place.begin()->string();
  if (!init_weights.empty() && first != ".." && !first.starts_with("aside-")) {
    throw UsageError("--init_weights=" + init_weights + " is of the earlier run in " + files.root.string() +
                         ", which would be moved",
                     "give another --run_dir");
  }
  if (const auto aside = report::MoveRunAside(files)) {
    report::LogWarning(why + ": the earlier run in " + files.root.string() + " was moved to " + aside->string());
  }
}

// Whether a run in the run directory is not the one that goes on: this one begins anew, or with that of another
// directory. A checkpoint alone, such as one of a backup, may be this run's.
bool LeavesRunBehind(const Session& session) {
  const std::string& resume = session.context.config.run.resume;
  if (resume == "auto" || session.restarted) return false;
  const std::filesystem::path run = weights::RunOf(resume);
  return resume == "none" || (data::IsRun(run) && !data::IsSameFile(run, session.run_directory));
}

// The checkpoints of the run. Rank 0 alone reads and writes them; the other ranks learn from it what state.json says,
// and those on machines with disks of their own keep the run from taking what is there later.
class RunCheckpoints {
 public:
  // A collective. Finds the checkpoint with which the run goes on.
  explicit RunCheckpoints(const Session& session)
      : resume_(session.context.config.run.resume), init_weights_(session.context.config.model.init_weights) {
    if (session.context.launch.rank == 0) {
      first_.emplace(session.run_directory);
      first_->store.RemoveLeftovers();
      first_->leaves_run_behind = LeavesRunBehind(session);
    }
    const bool has_ranks = session.rendezvous != nullptr, is_shared = !has_ranks || SharesRunDirectory(session);
    if (!is_shared && session.context.launch.local_rank == 0) other_disk_.emplace(session.context.config.run.dir);
    const bool any_rank_counts = has_ranks && resume_ == "auto";
    auto newest =
        any_rank_counts ? FindNewestOfRanks(session, is_shared, first_ ? &first_->store : nullptr) : std::nullopt;
    if (first_) {
      first_->found = any_rank_counts ? std::move(newest) : FindCheckpoint(resume_, session.restarted, first_->store);
      const report::RunDirectory files(session.run_directory);
      if (first_->found && first_->found->state.is_object()) {
        nlohmann::json& state = first_->found->state;
        const std::string lost = WhyBestIsLost(files.model_best, first_->leaves_run_behind, state);
        state[kLostBest] = lost.empty() ? WhyBestDoesNotCount(state, session.context.config.data) : lost;
      }
    }
    const nlohmann::json state = first_ && first_->found ? first_->found->state : nlohmann::json();
    state_ = session.rendezvous == nullptr
                 ? state
                 : nlohmann::json::parse(session.rendezvous->ShareFromFirst("state", JsonText(state)));
  }

  nlohmann::json& state() { return state_; }

  // Why the best weights of the run are lost; empty if they are not.
  std::string lost_best() const { return state_.is_object() ? state_.value(kLostBest, "") : ""; }

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
    nlohmann::json before = state_.value("config", nlohmann::json::object());
    const nlohmann::json& now = kept.at("config");
    const std::string weights = weights::TextIn(now, kInitWeights);
    if (first_ && !weights.empty() && weights::TextIn(before, kInitWeights) != weights)
      report::LogWarning("--init_weights=" + weights + " is not used, since the run goes on with its own weights");
    if (before.is_object()) before.erase(kInitWeights);
    const std::string changes = config::Changes(before, now);
    if (first_ && !changes.empty()) {
      report::LogWarning("changed since the checkpoint: " + changes + "; steps from now on use the new values");
    }
    return progress;
  }

  // The checkpoint belongs to this run, and the run has gone back to it, of which `progress` is: drops what came after
  // it, and what another run has left here.
  void DropLater(const loop::Progress& progress) {
    const int64_t step = state_.is_null() ? -1 : progress.step;
    if (other_disk_) SetAsideOnOtherDisk(step);
    if (!first_) return;
    const report::RunDirectory files(first_->store.run_directory());
    // Weights are written after the first checkpoint: somebody has removed all of them.
    const bool has_lost_all = state_.is_null() && data::Exists(files.model);
    if (first_->leaves_run_behind) {
      StartAnew(files, init_weights_, "--resume=" + resume_);
    } else if (has_lost_all) {
      StartAnew(files, init_weights_, "without a checkpoint the run begins anew");
    }
    SetAside(first_->store, step);
  }

  // Returns the tensors, once; empty on the other ranks and in a fresh run.
  std::optional<checkpoint::Snapshot> TakeSnapshot() {
    return first_ ? std::exchange(first_->found, std::nullopt) : std::nullopt;
  }

 private:
  static constexpr char kInitWeights[] = "init_weights";
  static constexpr char kLostBest[] = "lost_best";  // what rank 0 adds to the state for the other ranks

  struct FirstRank {
    explicit FirstRank(const std::filesystem::path& run_directory) : store(run_directory) {}

    checkpoint::Store store;
    bool leaves_run_behind = false;
    std::optional<checkpoint::Snapshot> found;
    std::unique_ptr<checkpoint::AsyncWriter> writer;
  };

  static void SetAside(checkpoint::Store& store, int64_t step) {
    const int moved = store.SetAsideNewerThan(step);
    if (moved == 0) return;
    report::LogWarning(CountOf(moved, "later checkpoint") + " moved to checkpoints/aside-…: the run goes back");
  }

  // The run does not need this disk.
  void SetAsideOnOtherDisk(int64_t step) {
    try {
      if (other_disk_->Steps().empty()) return;
      const checkpoint::RunLock lock(other_disk_->run_directory());
      if (!lock.warning().empty()) return;  // without locks, this may be rank 0's directory after all
      SetAside(*other_disk_, step);
    } catch (const StorageError& error) {
      report::LogWarning(error.what());
    }
  }

  const std::string resume_;
  const std::string init_weights_;
  std::optional<FirstRank> first_;               // empty on the other ranks
  std::optional<checkpoint::Store> other_disk_;  // of a machine that does not see rank 0's run directory
  nlohmann::json state_;                         // state.json of the checkpoint, on every rank; null if there is none
};

// Returns the metadata of the run's files of weights.
checkpoint::Metadata MetadataOf(const config::Config& config, const tasks::DataSets& data) {
  checkpoint::Metadata metadata = {{"format", "pt"}};
  weights::AddTo(metadata, data.classes);
  weights::AddSettings(metadata, config);
  AddDataAndTask(metadata, config, data);
  return metadata;
}

// Where the run begins or goes on.
struct StartPoint {
  loop::Progress progress;
  std::string stopped_early;  // why it has ended before its last step; empty: it has not
  bool finished = false;
};

void WriteRunFiles(const report::RunDirectory& files, const RunContext& context, const config::Config& config,
                   const Opened& run, const StartPoint& start) {
  nlohmann::ordered_json json = config::ToJson(config);
  json[config::kStartKey] = config::StartRecord(context.start, config);
  json[config::kStartKey]["world_size"] = context.launch.world_size;
  json[config::kStartKey][kJobKey] = context.launch.job;
  json[config::kStartKey]["best_metric"] = run.judgement.best_metric;
  json[config::kStartKey][report::kSmallerIsBetter] = run.judgement.smaller_is_better;
  const std::string text = JsonText(json, 2) + "\n";
  report::WriteConfig(files, text, start.progress.step, /*trains=*/!start.finished);
  const std::vector<std::string>& classes = run.data.classes.names;
  if (!classes.empty()) checkpoint::WriteAtomically(files.classes, weights::ClassesText(classes));
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

// What runs, in lines for people.
std::vector<std::string> Banner(const config::Config& config, const Session& session, const Opened& run) {
  using report::Grouped;
  const int world_size = session.context.launch.world_size;
  int64_t parameters = 0, frozen = 0;
  for (const auto& parameter : run.task->module().parameters()) {
    parameters += parameter.numel();
    if (!parameter.requires_grad()) frozen += parameter.numel();
  }
  std::vector<std::string> lines = {"dtrain: " + config.model.name + ", " + Grouped(parameters) + " parameters" +
                                    (frozen > 0 ? ", " + Grouped(frozen) + " of them frozen" : "")};
  const auto add = [&lines](const char* name, const std::string& text) {
    if (!text.empty()) lines.push_back(report::Format("  %-15s", name) + text);
  };
  add("device", device::Describe(session.device) + ", " + CountOf(world_size, "rank"));
  add("task", tasks::KindOf(config).name());
  add("deterministic", DescribeDeterminism(config, run.plan.batch, world_size));
  add("samples",
      Grouped(run.plan.train_samples) + " training, " + Grouped(ValidationSamples(run.data)) + " validation");
  const bool has_classes = tasks::KindOf(config).labels() != data::LabelKind::kNumbers;
  if (run.data.classes.count > 0) add(has_classes ? "classes" : "numbers", weights::Describe(run.data.classes));
  add("global batch", Grouped(run.plan.batch.global_batch_size));
  add("steps", Grouped(run.plan.total_steps) + report::Format(" (%g epochs)", run.plan.EpochAt(run.plan.total_steps)));
  add("run directory", session.run_directory);
  return lines;
}

// A collective: the ranks see that they have planned the same.
distributed::Communicator& Connect(Session& session, const config::Config& config, const nlohmann::json& identity,
                                   tasks::DataSets& data) {
  nlohmann::json common = identity;
  common["data_val_fingerprint"] = tasks::ValFingerprint(data);
  session.Connect(config, common);
  if (config.data.cache == "ram") tasks::KeepInMemory(data, session.rendezvous.get());
  return *session.communicator;
}

// Only when all is made is it known that the checkpoint belongs to this run: refusing it has left the directory as it
// was. Now rank 0 writes the run's first files, and a fresh model takes its initial weights.
StartPoint StartRun(const Session& session, const config::Config& config, const Opened& run, const nlohmann::json& kept,
                    RunCheckpoints& checkpoints) {
  StartPoint start;
  start.progress = checkpoints.ProgressOfRun(kept, config.data.allow_dataset_change);
  const int64_t step = start.progress.step;
  start.stopped_early = run.plan.WhyStopsEarly(start.progress);
  start.finished = step >= run.plan.total_steps || !start.stopped_early.empty();
  checkpoints.DropLater(start.progress);
  const std::string lost = start.finished ? "" : checkpoints.lost_best();
  if (!lost.empty()) start.progress.best.reset();
  if (session.context.launch.rank != 0) return start;
  const report::RunDirectory files(session.run_directory);
  if (!lost.empty()) {
    report::LogWarning(lost);
    std::error_code error;  // until the next validation, evaluations take the last weights
    const std::filesystem::path folder = files.root / "checkpoints";
    std::filesystem::create_directory(folder, error);
    std::filesystem::rename(files.model_best, folder / "aside-model_best.safetensors", error);
    const bool remains = error && error != std::errc::no_such_file_or_directory;
    if (remains) report::LogWarning("cannot move " + files.model_best.string() + " aside: " + error.message());
  }
  if (!start.finished) RequireDisk(files.root, DiskNeedsOf(config, *run.task, run.data.val.has_value()));
  session.control->Enter(control::Phase::kSaving);
  WriteRunFiles(files, session.context, config, run, start);
  tasks::KindOf(config).KeepFiles(config, files.root);
  session.control->Enter(control::Phase::kStarting);
  const bool takes_weights = !config.model.init_weights.empty();
  if (step == 0 && takes_weights)
    weights::BeginWithInitialWeights(config, run.data.classes, run.data.scale, run.task->module());
  if (!start.finished && !run.plan.WarningOfWarmup().empty()) report::LogWarning(run.plan.WarningOfWarmup());
  const auto is_kept_noise = [](const at::Tensor& weight) {
    return !weight.requires_grad() && weight.any().item<bool>();
  };
  if (step == 0 && !takes_weights && std::ranges::any_of(run.task->module().parameters(), is_kept_noise)) {
    report::LogWarning(
        "--freeze keeps weights that were drawn at random: --init_weights=FILE starts from trained ones");
  }
  return start;
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
                     (files.root / "quarantine*.jsonl").string() + " name them, and " +
                     (session.context.config.data.labels.empty()
                          ? "dtrain_data verify --move_bad_to=DIR takes bad image files out of the data"
                          : "their rows can be taken out of " + session.context.config.data.labels));
}

// What a person may not have meant.
void WarnOfPlan(const config::Config& config, const Opened& run) {
  for (const tasks::DataSplit* set : tasks::ValidationSets(run.data)) {
    if (set->source->fingerprint() != run.data.train->whole_fingerprint()) continue;
    report::LogWarning("the validation set '" + set->name +
                       "' is the training split: its numbers say nothing of other samples");
  }
  const int64_t most = config.batch.max_steps.value_or(0), steps = run.plan.total_steps;
  if (most > steps && !WasGiven(config, "epochs")) {
    report::LogWarning(report::Format("--epochs=%g, its default, ends the run", config.batch.epochs) + " after " +
                       CountOf(steps, "step") + ", before --max_steps=" + std::to_string(most));
  }
}

// Logs where the run begins.
void Announce(const Session& session, const config::Config& config, const Opened& run, const StartPoint& start,
              loop::Reporter& reporter) {
  for (const std::string& line : Banner(config, session, run)) reporter.Note(line);
  if (session.context.launch.rank == 0) WarnOfPlan(config, run);
  if (start.finished && session.context.launch.rank == 0) {
    report::LogInfo(HowToGoOn(config, run.plan, start.stopped_early));
  }
  if (config.report.clear_log && !session.restarted && !start.finished) reporter.Clear();
  reporter.Resume(start.progress.step, run.plan.EpochAt(start.progress.step));
}

}  // namespace

void Train(const RunContext& context) {
  const launch::Launch& launch = context.launch;
  Session session(context);
  RunCheckpoints checkpoints(session);
  const config::Config config = ConfigOfRun(context, checkpoints.state());
  Opened run = Open(config, launch, &session);
  const nlohmann::json kept = KeptState(context, config, run.plan, run.data);
  checkpoints.StartWriter(config.run.keep_checkpoints, MetadataOf(config, run.data));
  distributed::Communicator& communicator = Connect(session, config, kept.at("run"), run.data);
  MakeTask(config, session.device, run);
  if (config.ranks.sync_bn) {
    models::SynchronizeBatchNorm(run.task->module(), [&communicator](at::Tensor& sums) { communicator.Sum(sums); });
  }
  const auto step_graph =
      loop::MakeStepGraph(config.ranks.cuda_graphs, session.device, WhyNotRecorded(run, session.device));
  const StartPoint start = StartRun(session, config, run, kept, checkpoints);

  const report::RunDirectory files(session.run_directory);
  loop::Reporter reporter(
      config.report, launch.rank,
      {.model = config.model.name, .world_size = launch.world_size, .total_steps = run.plan.total_steps},
      launch.rank == 0 ? std::optional(files) : std::nullopt,
      {.config = config::ToJson(config), .hyperparameters = config::TrainingPart(config)}, HealthOf(session));
  Announce(session, config, run, start, reporter);
  loop::Trainer trainer({config, run.plan, run.data, *run.batches, *run.task, communicator, *session.control, reporter,
                         files, session.device, step_graph.get(), kept},
                        checkpoints.writer());
  {
    const std::optional<checkpoint::Snapshot> snapshot = checkpoints.TakeSnapshot();
    trainer.Restore(start.progress, snapshot ? &*snapshot : nullptr);
  }
  context.status->rank->step = start.progress.step;
  trainer.ReportStepsTo(&context.status->rank->step);
  const report::RunResult result = trainer.Run();
  SayBadRecords(session, run.data, files);
  session.Leave();
  reporter.Finish(result, /*keeps_result=*/start.finished);
}

}  // namespace dtrain::modes
