// A run knows itself: what model it trains and which images that model sees are in its config.json, and in the metadata
// of its files of weights, so that nobody has to say them again to evaluate it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// --resume=last: --run_dir becomes the newest run of runs/, and --resume auto. Where there is none, throws UsageError
// on rank 0; other ranks are told the directory.
void FindLastRun(config::Config& config, int rank);

// Whose weights --mode=eval, predict and export are about: the run directory, or the folder of one of its checkpoints,
// that --resume=PATH, --input (eval, export) or --run_dir names, the first of them that does. Empty where
// --init_weights names a file, or nothing a run.
std::filesystem::path NamedRun(const config::Config& config);

// The metadata of a file of weights for what TakeSettingsOfRun reads.
void AddSettings(checkpoint::Metadata& metadata, const config::Config& config);

// --image_size that was not given is what the model was made for: 224, or an EfficientNet's own.
void TakeImageSizeOfModel(config::Config& config);

// For --mode=eval, predict and export: takes the model and the image settings that were not given on the command line
// from the run, or from the file of weights. Returns what is to be said of it once there is a log. Throws StorageError
// where a run's configuration is damaged.
std::vector<std::string> TakeSettingsOfRun(config::Config& config);

}  // namespace dtrain::loop
