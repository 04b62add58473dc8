// The paths of a run's files, and a check that its folder can be written before hours are spent on training.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::report {

struct RunDirectory {
  explicit RunDirectory(std::filesystem::path run_directory) : root(std::move(run_directory)) {}

  std::filesystem::path root;
  std::filesystem::path config_json = root / "config.json";
  std::filesystem::path attempts = root / "attempts";    // a folder: the config.json of each start of the program
  std::filesystem::path classes = root / "classes.txt";  // a name a line, in the order of the labels; absent without
  std::filesystem::path metrics_jsonl = root / "metrics.jsonl", times_jsonl = root / "times.jsonl";
  std::filesystem::path spikes_jsonl = root / "spikes.jsonl";  // written by --spike_factor
  std::filesystem::path result_json = root / "result.json", error_json = root / "error.json";
  // Written by --mode=eval; see confusions.h.
  std::filesystem::path confusion_matrix = root / "confusion_matrix.csv", class_accuracy = root / "class_accuracy.csv";
  std::filesystem::path model = root / "model.safetensors";  // the raw weights of the last state
  std::filesystem::path model_best = root / "model_best.safetensors", model_ema = root / "model_ema.safetensors";
  std::filesystem::path logs = root / "logs";  // the folder of rank-N.log

  std::filesystem::path log(int rank) const;

  // Returns quarantine.jsonl for rank 0, quarantine.rankN.jsonl for other ranks.
  std::filesystem::path quarantine(int rank) const;
};

// Creates and returns <runs>/<model>-<YYYYMMDD>-<HHMMSS> (local time), with -2, -3, … appended if that exists, so that
// two runs which start in the same second have a folder each. Throws StorageError.
std::filesystem::path MakeDefaultRunDirectory(const std::filesystem::path& runs, const std::string& model,
                                              std::time_t now);

// Returns the folder in `runs` whose config.json, which is written at each start of a run, is the newest of those that
// `accepts`. Empty if there is no run.
std::optional<std::filesystem::path> NewestRun(
    const std::filesystem::path& runs,
    const std::function<bool(const RunDirectory&)>& accepts = [](const RunDirectory&) { return true; });

// Moves the files of an earlier run into a new folder inside of the run directory, aside-1 or the next free number.
// Leaves the logs, which are appended to, and files that are none of a run's. Returns the new folder, or empty if there
// was nothing to move. Throws StorageError.
std::optional<std::filesystem::path> MoveRunAside(const RunDirectory& run_directory);

// Writes config.json, and a copy of it as attempts/NNN-from-step-NNNNNNNNN.json. An attempt of a finished run, which
// does not train, leaves the config.json of the last one that did. Throws StorageError.
void WriteConfig(const RunDirectory& run_directory, const std::string& content, int64_t first_step, bool trains);

// Creates the folder with its parents, and writes and removes a file to prove that it can. Throws StorageError.
void PrepareRunDirectory(const RunDirectory& run_directory);

// Proves in the same way that the folder could be created and written, and leaves nothing behind. Throws StorageError.
void ProbeRunDirectory(const RunDirectory& run_directory);

// Proves that a file of this name could be written into its folder, and leaves nothing behind. Throws StorageError.
void ProbeFile(const std::filesystem::path& file);

// Returns the nearest folder at or above `path` that exists.
std::filesystem::path NearestFolder(const std::filesystem::path& path);

// Remembers the folders that do not exist yet on the way to `path`, and finally removes those of them that are empty.
class MadeFolders {
 public:
  explicit MadeFolders(const std::filesystem::path& path);
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the deepest first
};

}  // namespace dtrain::report
