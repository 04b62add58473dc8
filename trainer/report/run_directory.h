// Where the files of a run are: names in one place, and a check that the folder can be written before hours are spent.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>

namespace dtrain::report {

struct RunDirectory {
  explicit RunDirectory(std::filesystem::path run_directory);

  std::filesystem::path root;
  std::filesystem::path config_json;
  std::filesystem::path attempts;  // the config.json of each start, by the step it began at
  std::filesystem::path classes;   // classes.txt: a name a line, in the order of the labels; none where they have none
  std::filesystem::path metrics_jsonl;
  std::filesystem::path times_jsonl;
  std::filesystem::path result_json;
  // Of the last evaluation by --mode=eval: see confusions.h.
  std::filesystem::path confusion_matrix, class_accuracy;
  std::filesystem::path error_json;
  std::filesystem::path model;       // model.safetensors: the last state's raw weights
  std::filesystem::path model_best;  // model_best.safetensors
  std::filesystem::path model_ema;   // model_ema.safetensors
  std::filesystem::path logs;        // rank-N.log

  // logs/rank-N.log
  std::filesystem::path log(int rank) const;

  // quarantine.jsonl of rank 0, quarantine.rankN.jsonl of the others.
  std::filesystem::path quarantine(int rank) const;
};

// <runs>/<model>-<YYYYMMDD>-<HHMMSS>, local time; created here, and with -2, -3, … behind it where that is taken: two
// runs that start in the same second have a folder each. Throws StorageError.
std::filesystem::path MakeDefaultRunDirectory(const std::filesystem::path& runs, const std::string& model,
                                              std::time_t now);

// The folder in `runs` whose run was started last (config.json is written then); nullopt where there is none.
std::optional<std::filesystem::path> NewestRun(const std::filesystem::path& runs);

// Moves all that an earlier run has left in the folder into a new one inside, aside-1 or the next that is free, but for
// its logs, which are written on. Returns that folder; nullopt where nothing was there. Throws StorageError.
std::optional<std::filesystem::path> MoveRunAside(const RunDirectory& run_directory);

// Writes config.json, and keeps a copy among the attempts: NNN-from-step-NNNNNNNNN.json. Throws StorageError.
void WriteConfig(const RunDirectory& run_directory, const std::string& content, int64_t first_step);

// Creates the folder with its parents and proves that files can be written in it. Throws StorageError.
void PrepareRunDirectory(const RunDirectory& run_directory);

// Replaces a small text file (config.json, result.json) as a whole. Throws StorageError.
void WriteTextFile(const std::filesystem::path& path, const std::string& content);

}  // namespace dtrain::report
