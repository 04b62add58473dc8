#include "trainer/checkpoint/store.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "data/outputs.h"
#include "data/shallow_json.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr char kModel[] = "model.safetensors";
constexpr char kOptimizer[] = "optimizer.safetensors";
constexpr char kAverage[] = "model_ema.safetensors";
constexpr char kState[] = "state.json";
constexpr char kManifest[] = "manifest.json";
constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 10;
constexpr uint64_t kMaxStateBytes = uint64_t{1} << 30;

std::string NameOf(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step-%09lld", static_cast<long long>(step));
  return name;
}

std::optional<int64_t> StepOf(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  int64_t step = 0;
  if (name.rfind(kPrefix, 0) != 0) return std::nullopt;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stop == end && NameOf(step) == name ? std::optional(step) : std::nullopt;
}

bool Exists(const fs::path& path) {
  std::error_code unreadable;  // counts as missing; the next use reports the reason
  return fs::exists(path, unreadable);
}

void CreateFolder(const fs::path& directory) {
  std::error_code error;
  if (fs::create_directory(directory, error)) SyncDirectory(directory.parent_path());
  if (error) ThrowSystemError("create folder", directory, error.value());
}

void RemoveTree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) ThrowSystemError("remove", path, error.value());
}

Manifest WriteFiles(const fs::path& directory, const Snapshot& snapshot) {
  Manifest manifest{snapshot.step, {}};
  const auto write = [&](const char* name, const auto& append) {
    DurableFile file(directory / name);
    append(file);
    manifest.files[name] = file.Finish();
  };
  const auto step = Metadata{{"step", std::to_string(snapshot.step)}};
  write(kModel, [&](DurableFile& file) { AppendSafetensors(file, snapshot.model, step); });
  write(kOptimizer, [&](DurableFile& file) { AppendSafetensors(file, snapshot.optimizer, step); });
  if (!snapshot.average.empty()) {
    write(kAverage, [&](DurableFile& file) { AppendSafetensors(file, snapshot.average, step); });
  }
  write(kState, [&](DurableFile& file) {
    file.Append(snapshot.state.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  });
  return manifest;
}

// Returns the manifest. Throws StorageError with the first difference between the folder and it.
Manifest Verify(const fs::path& directory) {
  const Manifest manifest = ParseManifest(ReadTextFile(directory / kManifest, kMaxManifestBytes));
  for (const char* name : {kModel, kOptimizer, kAverage, kState}) {
    const auto expected = manifest.files.find(name);
    if (expected == manifest.files.end() && name == kAverage) continue;
    if (expected == manifest.files.end()) throw StorageError("manifest.json does not list " + std::string(name));
    const uint64_t bytes = SizeOfFile(directory / name);  // before reading, since a sparse file may have terabytes
    if (bytes != expected->second.bytes) {
      throw StorageError(std::string(name) + " has " + std::to_string(bytes) + " bytes instead of " +
                         std::to_string(expected->second.bytes));
    }
    if (DigestOfFile(directory / name).sha256 != expected->second.sha256)
      throw StorageError(std::string(name) + " has a wrong SHA-256");
  }
  const std::optional<int64_t> named = StepOf(directory.filename().string());
  if (named && *named != manifest.step) {
    throw StorageError("it holds step " + std::to_string(manifest.step) + ", which is not the step in its name");
  }
  return manifest;
}

nlohmann::json ParseState(const fs::path& path) {
  try {
    return ParseShallow(ReadTextFile(path, kMaxStateBytes));
  } catch (const nlohmann::json::exception& error) {
    throw StorageError(path.string() + WhyNotJson(error));
  }
}

}  // namespace

Store::Store(fs::path run_directory)
    : run_directory_(std::move(run_directory)), checkpoints_(run_directory_ / "checkpoints") {}

fs::path Store::DirectoryOf(int64_t step) const { return checkpoints_ / NameOf(step); }

fs::path Store::TemporaryFor(int64_t step) const {
  return checkpoints_ / ("tmp." + std::to_string(::getpid()) + "." + NameOf(step));
}

std::vector<int64_t> Store::Steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : NamesIn(checkpoints_)) {
    if (const std::optional<int64_t> step = StepOf(name)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

void Store::RemoveLeftovers() {
  for (const std::string& name : NamesIn(checkpoints_)) {
    if (name.rfind("tmp.", 0) == 0) RemoveTree(checkpoints_ / name);
  }
}

Checkpoint Store::Publish(const Snapshot& snapshot) {
  const fs::path directory = DirectoryOf(snapshot.step);
  CreateFolder(checkpoints_);
  if (Exists(directory) && !ProblemOf(directory)) {
    SyncDirectory(checkpoints_);  // an earlier attempt may have failed right after its rename
  } else {
    const fs::path temporary = TemporaryFor(snapshot.step);
    RemoveTree(temporary);
    try {
      CreateFolder(temporary);
      DurableFile manifest(temporary / kManifest);
      manifest.Append(ManifestText(WriteFiles(temporary, snapshot)));
      manifest.Finish();
      SyncDirectory(temporary);
      Verify(temporary);
      Reveal(temporary, snapshot.step);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(temporary, ignored);
      throw;
    }
  }
  PointLatestAt(snapshot.step);
  return {snapshot.step, directory};
}

void Store::Reveal(const fs::path& temporary, int64_t step) {
  const fs::path directory = DirectoryOf(step);
  if (!Exists(directory)) {
    RenameDurably(temporary, directory);
    return;
  }
  fs::path damaged = temporary;  // only a folder that failed verification is ever replaced
  damaged += ".damaged";
  RemoveTree(damaged);
  RenameDurably(directory, damaged);
  RenameDurably(temporary, directory);
  RemoveTree(damaged);
}

void Store::PointLatestAt(int64_t step) {
  WriteAtomically(run_directory_ / "latest", "checkpoints/" + NameOf(step) + "\n");
}

std::optional<Checkpoint> Store::FindNewestValid(const OnInvalid& on_invalid) const {
  const std::vector<int64_t> steps = Steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const fs::path directory = DirectoryOf(*step);
    const std::optional<std::string> problem = ProblemOf(directory);
    if (!problem) return Checkpoint{*step, directory};
    if (on_invalid) on_invalid(directory, *problem);
  }
  if (steps.empty()) return std::nullopt;
  throw StorageError(
      "none of the " + std::to_string(steps.size()) + " checkpoints in " + checkpoints_.string() + " is valid",
      "restore one from a backup and name it with --resume=PATH, or start anew with --resume=none");
}

void Store::Prune(const Checkpoint& newest, int64_t keep) {
  std::vector<int64_t> steps = Steps();
  std::erase_if(steps, [&](int64_t step) { return step > newest.step; });
  for (size_t i = 0; i + static_cast<size_t>(std::max<int64_t>(keep, 1)) < steps.size(); ++i) Delete(steps[i]);
}

void Store::Delete(int64_t step) {
  const fs::path temporary = TemporaryFor(step);  // a half-deleted folder must not look like a checkpoint
  RemoveTree(temporary);
  RenameDurably(DirectoryOf(step), temporary);
  RemoveTree(temporary);
}

int Store::SetAsideNewerThan(int64_t step) {
  int moved = 0;
  for (const int64_t found : Steps()) {
    if (found <= step) continue;
    fs::path target;
    for (int n = 1; target.empty() || Exists(target); ++n) {
      target = checkpoints_ / ("aside-" + std::to_string(n) + "-" + NameOf(found));
    }
    RenameDurably(DirectoryOf(found), target);
    ++moved;
  }
  return moved;
}

std::optional<std::string> ProblemOf(const fs::path& directory) {
  try {
    Verify(directory);
    return std::nullopt;
  } catch (const StorageError& error) {
    return error.what();
  }
}

Checkpoint OpenCheckpoint(const fs::path& path, const Store::OnInvalid& on_invalid) {
  constexpr char kHint[] =
      "name a folder checkpoints/step-…, or the run directory that contains it; --init_weights=FILE begins with "
      "weights";
  const bool has_failed = Exists(path / "error.json");
  if (has_failed || Exists(path / "checkpoints") || (data::IsRun(path) && !data::IsCheckpoint(path))) {
    if (const std::optional<Checkpoint> newest = Store(path).FindNewestValid(on_invalid)) return *newest;
    if (!Store(path).Steps().empty()) {
      throw StorageError("no checkpoint of the run " + path.string() + " is valid", "copy the run again");
    }
    throw StorageError("the run " + path.string() + " has saved no checkpoint",
                       has_failed ? (path / "error.json").string() + " says why it ended, and what to do"
                                  : "let it go on to its first save, or save more often (--save_every_steps)");
  }
  fs::path directory = path.has_filename() ? path : path.parent_path();  // without a trailing slash
  try {
    return {Verify(directory).step, directory};
  } catch (const StorageError& error) {
    throw StorageError(path.string() + " is not a valid checkpoint: " + error.what(), kHint);
  }
}

SafetensorsContent ReadWeights(const fs::path& file) {
  if (data::IsCheckpoint(file.parent_path())) OpenCheckpoint(file.parent_path(), nullptr);
  return ReadSafetensors(file);
}

Snapshot Load(const Checkpoint& checkpoint) {
  Snapshot snapshot;
  snapshot.step = checkpoint.step;
  const Manifest manifest = ParseManifest(ReadTextFile(checkpoint.directory / kManifest, kMaxManifestBytes));
  try {
    snapshot.model = ReadSafetensors(checkpoint.directory / kModel).tensors;
    snapshot.optimizer = ReadSafetensors(checkpoint.directory / kOptimizer).tensors;
    if (manifest.files.contains(kAverage)) {
      snapshot.average = ReadSafetensors(checkpoint.directory / kAverage).tensors;
    }
  } catch (const DataError& error) {
    throw StorageError(error.what(), error.hint());
  }
  snapshot.state = ParseState(checkpoint.directory / kState);
  return snapshot;
}

}  // namespace dtrain::checkpoint
