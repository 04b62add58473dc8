// Where the files of a run are: names in one place, and a check that the folder can be written before hours are spent.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>

namespace dtrain::report {

struct RunDirectory {
  explicit RunDirectory(std::filesystem::path run_directory);

  std::filesystem::path root;
  std::filesystem::path config_json;
  std::filesystem::path metrics_jsonl;
  std::filesystem::path result_json;
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

// runs/<model>-<YYYYMMDD>-<HHMMSS>, local time.
std::filesystem::path DefaultRunDirectory(const std::string& model, std::time_t now);

// Creates the folder with its parents and proves that files can be written in it. Throws StorageError.
void PrepareRunDirectory(const RunDirectory& run_directory);

// Replaces a small text file (config.json, result.json) as a whole. Throws StorageError.
void WriteTextFile(const std::filesystem::path& path, const std::string& content);

}  // namespace dtrain::report
