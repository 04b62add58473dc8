#include "trainer/modes/resume.h"

#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "data/joined.h"
#include "data/shallow_json.h"
#include "trainer/checkpoint/async_writer.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/modes/session.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::modes {
namespace {

using weights::PartOf;

constexpr const char* kWriterKey = "written_by";  // in state.json: the version

void WarnOfInvalid(const std::filesystem::path& directory, const std::string& reason) {
  report::LogWarning("checkpoint " + directory.string() + " cannot be used: " + reason + "; trying the previous one");
}

// Lets a run resume without --elastic_shards if it began with it. Throws UsageError if there are more ranks than
// shards.
void KeepShards(int64_t shards, int world, config::Config& config) {
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

constexpr char kFiles[] = "checkpoint/files";
constexpr int64_t kNone = -1;

std::string HeldBy(int rank) { return "checkpoint/held_by/" + std::to_string(rank); }
std::string Piece(int64_t number) { return "checkpoint/piece/" + std::to_string(number); }
std::string Taken(int64_t number) { return "checkpoint/taken/" + std::to_string(number); }

// Tells a run directory from another machine's of the same name: rank 0 has just written its lock.
std::string IdentityOf(const std::filesystem::path& run_directory) {
  struct stat lock {};
  if (::stat((run_directory / "lock").c_str(), &lock) != 0) return "";
  return std::to_string(lock.st_ino) + " " + std::to_string(lock.st_mtim.tv_sec) + " " +
         std::to_string(lock.st_mtim.tv_nsec);
}

// Returns the newest valid checkpoint of this rank's own run directory if it is newer than rank 0's.
std::optional<checkpoint::Checkpoint> OwnIfNewer(const std::string& run_directory, int64_t than) {
  try {
    const checkpoint::Store store(run_directory);
    const std::vector<int64_t> steps = store.Steps();
    if (steps.empty() || steps.back() <= than) return std::nullopt;
    auto found = store.FindNewestValid(WarnOfInvalid);
    return found && found->step > than ? found : std::nullopt;
  } catch (const StorageError& error) {
    report::LogWarning(error.what());
    return std::nullopt;
  }
}

// The store is in rank 0's memory, so that the next piece waits until the last one is taken.
void Send(const std::filesystem::path& folder, c10d::Store& store) {
  nlohmann::ordered_json files;
  for (const std::string& name : checkpoint::NamesIn(folder)) files[name] = std::filesystem::file_size(folder / name);
  store.set(kFiles, JsonText(files));
  int64_t number = 0;
  for (const auto& [name, bytes] : files.items()) {
    std::ifstream file(folder / name, std::ios::binary);
    for (size_t left = bytes.get<size_t>(); left > 0; ++number) {
      std::string piece(std::min(left, distributed::kPieceBytes), '\0');
      if (!file.read(piece.data(), static_cast<std::streamsize>(piece.size())))
        throw StorageError("cannot read " + (folder / name).string());
      store.set(Piece(number), piece);
      store.wait({Taken(number)});
      store.deleteKey(Taken(number));
      left -= piece.size();
    }
  }
}

void Receive(const std::filesystem::path& folder, c10d::Store& store) {
  const auto files = nlohmann::ordered_json::parse(store.get_to_str(kFiles));
  std::error_code said_by_writing;
  std::filesystem::create_directories(folder, said_by_writing);
  int64_t number = 0;
  for (const auto& [name, bytes] : files.items()) {
    checkpoint::DurableFile file(folder / std::filesystem::path(name).filename());
    for (size_t left = bytes.get<size_t>(); left > 0; ++number) {
      const std::string piece = store.get_to_str(Piece(number));
      store.deleteKey(Piece(number));
      file.Append(piece);
      left -= std::min(left, piece.size());
      store.set(Taken(number), "");
    }
    file.Finish();
  }
}

checkpoint::Snapshot LoadToResume(const checkpoint::Checkpoint& found) {
  report::LogInfo("resuming from " + found.directory.string());
  return checkpoint::Load(found);
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
  return LoadToResume(*found);
}

std::string WhyBestIsLost(const std::filesystem::path& model_best, bool is_of_another, const nlohmann::json& state) {
  const nlohmann::json progress = PartOf(state, "progress"), step = PartOf(PartOf(progress, "best"), "step");
  if (!step.is_number_integer() || step == PartOf(progress, "step")) return "";
  const auto found = is_of_another ? std::nullopt : checkpoint::StepOfWeights(model_best);
  if (found && *found == step.get<int64_t>()) return "";
  return "the weights of the best validation, that of step " + step.dump() + ", are lost: " + model_best.string() +
         (found                                 ? " is of step " + std::to_string(*found)
          : std::filesystem::exists(model_best) ? " cannot be read"
                                                : " is not there") +
         "; the next validation is the best one so far";
}

std::string WhyBestDoesNotCount(const nlohmann::json& state, const config::DataConfig& data) {
  config::DataConfig before = data;
  before.val_split = weights::TextIn(PartOf(state, "config"), "val_split");
  const bool is_known = !before.val_split.empty() && !PartOf(PartOf(state, "progress"), "best").is_null();
  const std::string then = is_known ? config::ValSplits(before).front() : "", now = config::ValSplits(data).front();
  if (!is_known || then == now) return "";
  return "the best validation is that of " + then + ", and now " + now +
         " decides; the next validation is the best one so far";
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

bool SharesRunDirectory(const Session& session) {
  distributed::Rendezvous& ranks = *session.rendezvous;
  const bool is_first = ranks.launch().rank == 0;
  const std::string& own = is_first ? session.run_directory : session.context.config.run.dir;
  const std::string identity = own.empty() ? "" : IdentityOf(own);
  const std::string of_first = ranks.ShareFromFirst("run_directory_identity", identity);
  return own.empty() || of_first == identity;
}

std::optional<checkpoint::Snapshot> FindNewestOfRanks(const Session& session, bool is_shared,
                                                      checkpoint::Store* store) {
  distributed::Rendezvous& ranks = *session.rendezvous;
  c10d::Store& shared = *ranks.store();
  const int rank = ranks.launch().rank;
  std::optional<checkpoint::Checkpoint> own;
  std::exception_ptr none_is_valid;  // which counts if no other rank has one
  if (rank == 0) {
    try {
      own = store->FindNewestValid(WarnOfInvalid);
    } catch (const StorageError&) {
      none_is_valid = std::current_exception();
    }
  }
  const auto patience = 2 * shared.getTimeout();  // rank 0 reads whole checkpoints before it speaks
  if (rank != 0) shared.wait({"shared/newest_checkpoint"}, patience);
  int64_t newest = std::stoll(ranks.ShareFromFirst("newest_checkpoint", std::to_string(own ? own->step : kNone)));
  if (rank != 0) {
    if (!is_shared) own = OwnIfNewer(session.context.config.run.dir, newest);
    shared.set(HeldBy(rank), std::to_string(own ? own->step : kNone));
  }
  // Ranks that do not come are the control plane's matter, which names them and ends this process before.
  int holder = 0;
  for (int other = 1; rank == 0 && other < ranks.launch().world_size; ++other) {
    shared.wait({HeldBy(other)}, patience);
    const int64_t step = std::stoll(shared.get_to_str(HeldBy(other)));
    if (step > newest) std::tie(newest, holder) = std::pair(step, other);
  }
  if (newest == kNone && none_is_valid) std::rethrow_exception(none_is_valid);
  if (rank != 0) shared.wait({"shared/checkpoint_holder"}, patience);
  holder = std::stoi(ranks.ShareFromFirst("checkpoint_holder", std::to_string(holder)));
  if (holder != 0 && rank == holder) Send(own->directory, shared);
  if (rank != 0) return std::nullopt;
  if (holder == 0) return own ? std::optional(LoadToResume(*own)) : std::nullopt;
  report::LogInfo("rank " + std::to_string(holder) + " has the newest checkpoint, of step " + std::to_string(newest) +
                  ", on a disk of its own, and sends it");
  const std::filesystem::path folder = store->TemporaryFor(newest);
  Receive(folder, shared);
  checkpoint::Snapshot received = checkpoint::Load(checkpoint::OpenCheckpoint(folder, /*on_invalid=*/{}));
  store->RemoveLeftovers();
  return received;
}

}  // namespace dtrain::modes
