#include "trainer/modes/resume.h"

#include <utility>

#include "data/joined.h"
#include "trainer/checkpoint/async_writer.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::modes {
namespace {

constexpr const char* kWriterKey = "written_by";  // in state.json: the version

void WarnOfInvalid(const std::filesystem::path& directory, const std::string& reason) {
  report::LogWarning("checkpoint " + directory.string() + " cannot be used: " + reason + "; trying the previous one");
}
#include "trainer/weights/weight_files.h"

// Lets a run resume without --elastic_shards if it began with it. Throws UsageError if there are more ranks than
// shards.
void KeepShards(int64_t shards, int world, config::Config& config) {
using weights::PartOf;

  if (shards < 1 || WasGiven(config, "elastic_shards") || WasGiven(config, "batch_size")) return;
  if (shards < world) {
    throw UsageError("the checkpoint was made with " + CountOf(shards, "shard") + " of the global batch, too few for " +
                         CountOf(world, "rank"),
                     "continue on at most " + CountOf(shards, "rank") + ", or start anew with another --run_dir");
  }
  config.batch.elastic_shards = shards;
  config.batch.batch_size = config::ResolveBatch(config.batch, world).batch_size;
}

// Changes the batch sizes of `config` to those with which `world` ranks compute the global batch of the run whose
// state.json is given. Does so only where the command says as much as the one that began the run: the same batch size
// per rank, neither --global_batch_size nor --grad_accum_steps. An elastic run keeps its number of shards, likewise.
// Throws UsageError if these are fewer than the ranks. Returns a sentence for people; empty if no batch size changed.
std::string KeepGlobalBatch(const nlohmann::json& state, int world, config::Config& config) {
  config::BatchConfig& batch = config.batch;
  const auto number = [&state](const char* part, const char* key) -> int64_t {
    const nlohmann::json value = PartOf(PartOf(state, part), key);
    return value.is_number_integer() ? value.get<int64_t>() : 0;
  };
  const int64_t kept = number("run", "global_batch_size"), asked = number("asked", "batch_size");
  if (config::IsElastic(config)) {
    KeepShards(number("run", loop::kShardsKey), world, config);
    return "";
  }
  if (kept == 0 || kept == *batch.global_batch_size) return "";
  if (asked != *batch.batch_size || WasGiven(config, "global_batch_size") || WasGiven(config, "grad_accum_steps")) {
    return "";
  }
  const auto sizes = config::ShareGlobalBatch(kept, asked, world);
  const bool fits = sizes && (config.text.max_tokens == 0 || sizes->batch_size == asked);
  if (!fits) return "";  // RequireSameRun refuses it
  batch.batch_size = sizes->batch_size;
  batch.grad_accum_steps = sizes->grad_accum_steps;
  batch.global_batch_size = sizes->global_batch_size;
  if (!WasGiven(config, "lr")) config.optimizer.lr.reset();
  config::Resolve(config, world);
  return "the run's global batch of " + std::to_string(kept) + " is kept on " + CountOf(world, "rank") +
         ": --batch_size=" + std::to_string(sizes->batch_size) +
         " --grad_accum_steps=" + std::to_string(sizes->grad_accum_steps);
}

}  // namespace

std::optional<checkpoint::Snapshot> FindCheckpoint(const std::string& resume, bool restarted,
                                                   const checkpoint::Store& store) {
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

std::string WhyBestIsLost(const std::filesystem::path& model_best, const nlohmann::json& state) {
  const nlohmann::json progress = PartOf(state, "progress"), step = PartOf(PartOf(progress, "best"), "step");
  if (!step.is_number_integer() || step == PartOf(progress, "step")) return "";
  const std::optional<int64_t> found = checkpoint::StepOfWeights(model_best);
  if (found == step.get<int64_t>()) return "";
  return "the weights of the best validation, that of step " + step.dump() + ", are lost: " + model_best.string() +
         (found ? " is of step " + std::to_string(*found) : " is not there") +
         "; the next validation is the best one so far";
}

void KeepSamples(nlohmann::json& state, config::Config& config) {
  const auto take = [&](const char* part, const std::string& flag) {
    if (!state.is_object() || !state.contains(part) || !state[part].is_object()) return;
    nlohmann::json settings = state[part];
    weights::AddWhatEarlierVersionsDid(settings);
    config::TakeFrom(settings, {flag}, config);
    if (settings.contains(flag)) state[part][flag] = settings[flag];
  };
  take("run", "split_seed");
  take("config", "exif_orientation");
}

config::Config ConfigOfRun(const RunContext& context, nlohmann::json& state) {
  config::Config config = context.config;
  KeepSamples(state, config);
  const std::string adapted = KeepGlobalBatch(state, context.launch.world_size, config);
  if (!adapted.empty() && context.launch.rank == 0) report::LogInfo(adapted);
  return config;
}

nlohmann::json KeptState(const RunContext& context, const config::Config& config, const loop::Plan& plan,
                         const tasks::DataSets& data) {
  nlohmann::json kept = {{kWriterKey, context.start.version + " " + context.start.commit},
                         {"run", loop::RunIdentity(config, plan, data)},
                         {"config", config::TrainingPart(config)},
                         {"asked", {{"batch_size", *context.config.batch.batch_size}}},
                         {"classes", weights::ToJson(data.classes)}};
  checkpoint::Metadata metadata;
  AddDataAndTask(metadata, config, data);
  kept.update(metadata);
  return kept;
}

void AddDataAndTask(checkpoint::Metadata& metadata, const config::Config& config, const tasks::DataSets& data) {
  metadata[weights::kTrainedOnKey] = data.train->whole_fingerprint();
  if (data.val && !data.val->whole.empty()) metadata[weights::kHeldOutKey] = data.val->source->fingerprint();
  tasks::KindOf(config).AddMetadata(metadata, config, data);
}

loop::Progress ProgressOf(const nlohmann::json& state, const nlohmann::json& kept, bool allow_dataset_change) {
  try {
    weights::RequireSameNames(weights::ClassesFromJson(PartOf(state, "classes"), "the checkpoint"),
                              weights::ClassesFromJson(kept.at("classes"), "this run"));
    loop::RequireSameRun(PartOf(state, "run"), kept.at("run"), allow_dataset_change);
    return loop::ProgressFromJson(PartOf(state, "progress"));
  } catch (const Error& error) {
    const nlohmann::json writer = PartOf(state, kWriterKey);
    if (writer == kept.at(kWriterKey)) throw;
    const std::string by = writer.is_string() ? writer.get<std::string>() : "an earlier version";
    const bool is_about_flags = error.code() != ExitCode::kStorage;  // else nothing but the other version can help
    throw Error(error.code(), error.what(),
                "the checkpoint was written by dtrain " + by + ", this is " + kept.at(kWriterKey).get<std::string>() +
                    ": go on with the version that wrote it (docs/runs.md)" +
                    (is_about_flags ? "; or " + error.hint() : ""));
  }
}

void RequireNoneLeftOut(const loop::Progress& progress, const loop::Plan& plan) {
  const bool is_over = progress.step >= plan.total_steps || !plan.WhyStopsEarly(progress).empty();
  if (progress.left_out_batches == 0 || is_over) return;
  throw UsageError("the run has left out " + std::to_string(progress.left_out_batches) +
                       " of its batches with --on_spike=rewind, which is gone: its next steps would take other samples",
                   "go on with the version that began it; or begin another run with its weights "
                   "(--init_weights=RUN_DIR/model.safetensors)");
}

}  // namespace dtrain::modes
