// Settings that are stored with a run: its config.json, and the metadata of its files of weights, tell its model and
// the size and preparation of its images, so that users need not repeat them to evaluate it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::weights {

// The key of a weights file's metadata that holds the settings.
inline constexpr char kSettings[] = "settings";

// With --resume=last and no --run_dir, sets --run_dir to the newest run in runs/, and --resume to auto. If there is no
// run, throws UsageError on rank 0; the other ranks learn the directory from rank 0.
void FindLastRun(config::Config& config, int rank);

// Returns the run directory or the checkpoint's folder whose weights --mode=eval, predict and export use: the first one
// named by --resume=PATH, --input (eval, export) or --run_dir (eval, predict). Empty with --init_weights or if none is.
std::filesystem::path NamedRun(const config::Config& config);

// Returns the run of a checkpoint's folder, RUN/checkpoints/step-…, else the path itself.
std::filesystem::path RunOf(const std::filesystem::path& run_or_checkpoint);

// Settings of a run by a version that had no --split_seed, or no --exif_orientation, get what it did then: --seed chose
// the held-out samples, and photographs were used as they are stored.
void AddWhatEarlierVersionsDid(nlohmann::json& settings);

// Adds the settings to a weights file's metadata, from where TakeSettingsOfRun reads them.
void AddSettings(checkpoint::Metadata& metadata, const config::Config& config);

// Returns the settings that the run which a training goes on with has been started with; null if it begins.
nlohmann::json SettingsOfBegunRun(const config::Config& config);

// Returns the settings that a file of weights of ours has, but for sizes in evaluation if another image size is given
// now; null if it has none that name a known model.
nlohmann::json SettingsKeptWith(const std::string& file, const config::Config& config);

// Takes the sizes in evaluation out of settings if another image size was given.
void ForgetResizeOfAnotherSize(nlohmann::json& settings, const config::Config& config);

// Sets --image_size, unless it was given, to the size that the model was designed for: 224, or its own.
void TakeImageSizeOfModel(config::Config& config);

// For --mode=eval, predict and export: takes the settings of the model and of its data that were not given on the
// command line from the run, or from the file of weights. Returns lines for the log, which is not open yet. Throws
// StorageError if the stored configuration is damaged, UsageError if it is no run's.
std::vector<std::string> TakeSettingsOfRun(config::Config& config);

}  // namespace dtrain::weights
