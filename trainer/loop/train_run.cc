// --mode=train: opens the data, meets the other ranks, restores, trains.
#include <ATen/Context.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/layers.h"
#include "models/registry.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/config_json.h"
#include "trainer/distributed/device.h"
#include "trainer/distributed/rendezvous.h"
#include "trainer/errors.h"
#include "trainer/loop/data_cache.h"
#include "trainer/loop/export_tokenizer.h"
#include "trainer/loop/image_decoding.h"
#include "trainer/loop/initial_weights.h"
#include "trainer/loop/make_task.h"
#include "trainer/loop/roberta_model.h"
#include "trainer/loop/run.h"
#include "trainer/loop/session.h"
#include "trainer/loop/trainer.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

void WarnOfInvalid(const std::filesystem::path& directory, const std::string& reason) {
  report::LogWarning("checkpoint " + directory.string() + " cannot be used: " + reason + "; trying the one before");
}

// The checkpoint to go on from, as --resume says. A run that was started again goes on from what it has saved itself,
// wherever it began.
std::optional<checkpoint::Snapshot> FindCheckpoint(const std::string& resume, bool restarted,
                                                   checkpoint::Store& store) {
  std::optional<checkpoint::Checkpoint> found;
  if (resume != "auto" && resume != "none") found = checkpoint::OpenCheckpoint(resume, WarnOfInvalid);
  if (resume == "auto" || restarted) {
    auto newest = store.FindNewestValid(WarnOfInvalid);
    if (newest && (!found || newest->step > found->step)) found = std::move(newest);
  }
  if (!found) return std::nullopt;
  report::LogInfo("resuming from " + found->directory.string());
  return checkpoint::Load(*found);
}

// Rank 0's part: the files of the run, which nobody else writes.
struct FirstRank {
  FirstRank(const RunContext& context, const report::RunDirectory& files, bool restarted, const DataSets& data)
      : store(files.root) {
    store.RemoveLeftovers();
    restored = FindCheckpoint(context.config.run.resume, restarted, store);
    checkpoint::AsyncWriterOptions options;
    options.keep_checkpoints = context.config.run.keep_checkpoints;
    options.model_metadata = {{"format", "pt"}};
    if (models::IsRoberta(context.config.model.name)) {
      options.model_metadata[kModelConfigKey] = ModelConfigOf(context.config, data.num_classes);
    }
    options.warn = [](const std::string& message) { report::LogWarning(message); };
    writer = std::make_unique<checkpoint::AsyncWriter>(store, options);
  }
  checkpoint::Store store;
  std::optional<checkpoint::Snapshot> restored;
  std::unique_ptr<checkpoint::AsyncWriter> writer;
};

// Rank 0's progress, on every rank.
Progress SharedProgress(Session& session, const FirstRank* first, const nlohmann::json& identity,
                        bool allow_dataset_change) {
  nlohmann::json state;
  if (first != nullptr && first->restored) state = first->restored->state;
  if (session.rendezvous) state = nlohmann::json::parse(session.rendezvous->ShareFromFirst("state", state.dump()));
  if (state.is_null()) return {};
  RequireSameRun(state.at("run"), identity, allow_dataset_change);
  return ProgressFromJson(state.at("progress"));
}

report::Banner MakeBanner(const RunContext& context, const Plan& plan, const DataSets& data,
                          const torch::nn::Module& model, const report::RunDirectory& files, at::Device device) {
  report::Banner banner;
  banner.model = context.config.model.name;
  for (const auto& parameter : model.parameters()) banner.parameters += parameter.numel();
  banner.device = distributed::Describe(device);
  banner.world_size = context.launch.world_size;
  banner.deterministic = context.config.ranks.deterministic == "run";
  banner.train_samples = plan.train_samples;
  banner.val_samples = data.val ? data.val->source->size() : 0;
  banner.global_batch_size = plan.batch.global_batch_size;
  banner.total_steps = plan.total_steps;
  banner.epochs = plan.EpochAt(plan.total_steps);
  banner.run_directory = files.root.string();
  return banner;
}

}  // namespace

void Train(const RunContext& context) {
  Session session(context);
  const config::Config& config = context.config;
  const bool is_first = context.launch.rank == 0;
  const report::RunDirectory files(session.run_directory);

  const auto image_decoder = MakeDeviceImageDecoder(config, session.device);
  DataSets data = session.OpenData();
  const auto batches = MakeTrainBatches(*data.train, config, context.launch.world_size);
  const Plan plan = MakePlan(config, data.train->source->size(), context.launch.world_size, batches->units(),
                             batches->units_per_step());
  const nlohmann::json identity = RunIdentity(config, plan, data);
  std::optional<FirstRank> first;
  if (is_first) first.emplace(context, files, session.restarted, data);

  session.Connect(identity);
  if (config.data.cache == "ram") KeepInMemory(data, session.rendezvous.get());
  const auto task = MakeTask(config, data.num_classes, session.device, context.launch.rank);
  torch::nn::Module& model = task->module();
  if (config.ranks.sync_bn) {
    models::SynchronizeBatchNorm(model, [&session](at::Tensor& sums) { session.communicator->Sum(sums); });
  }
  const Progress progress =
      SharedProgress(session, first ? &*first : nullptr, identity, config.data.allow_dataset_change);
  // Not before the checkpoint was found to belong to this run: a refused one leaves the directory as it was.
  if (first) first->store.SetAsideNewerThan(first->restored ? first->restored->step : -1);
  if (is_first && models::IsRoberta(config.model.name)) KeepTokenizer(config.data.dir, files.root);
  if (is_first) report::WriteTextFile(files.config_json, config::ToJson(config).dump(2) + "\n");
  if (is_first && progress.step == 0 && !config.model.init_weights.empty()) {
    ApplyInitialWeights(ReadInitialWeights(config.model).tensors, config.model, model);
  }

  Reporter reporter(config.report, context.launch.rank, plan.total_steps,
                    is_first ? std::optional(files) : std::nullopt);
  reporter.Start(MakeBanner(context, plan, data, model, files, session.device));
  if (config.report.clear_log && !session.restarted) reporter.Clear();
  reporter.Resume(progress.step, plan.EpochAt(progress.step));
  Trainer trainer({config, plan, data, *batches, *task, *session.communicator, *session.control, reporter, files,
                   session.device, image_decoder.get(), identity},
                  first ? first->writer.get() : nullptr);
  trainer.Restore(progress, first && first->restored ? &*first->restored : nullptr);
  if (first) first->restored.reset();
  *context.status->step = progress.step;
  trainer.ReportStepsTo(context.status->step.get());
  const report::RunResult result = trainer.Run();
  session.Leave();
  reporter.Finish(result);
}

}  // namespace dtrain::loop
