// Settings that come with weights, so that users need not repeat them: those of a run, which its config.json and the
// metadata of its files of weights tell, and what other programs keep beside theirs on the model and on how it saw
// images.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/family.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {

// The key of a weights file's metadata that holds the settings.
inline constexpr char kSettings[] = "settings";

// Returns the run directory or the checkpoint's folder whose weights --mode=eval, predict and export use: the first one
// named by --resume=PATH, --input (eval, export) or --run_dir (eval, predict). Empty with --init_weights or if none is.
std::filesystem::path NamedRun(const config::Config& config);

// Returns the file or folder of weights that is named: --init_weights, or to export --input; empty if none is. What is
// exported of a run is none.
std::string GivenWeights(const config::Config& config);

// Returns the model of images that weights of these shapes at such a place are of: --model if they can be, else the one
// that the config.json beside them names, or which they were trained as. Null: none is known. Of shapes alone: to
// compute would start OpenMP's threads, which ranks that are forked from this process lack.
const models::Model* ImageModelMeant(const models::WeightShapes& shapes, const WeightsPlace& place,
                                     const config::Config& config);

// Returns the run of a checkpoint's folder, RUN/checkpoints/step-…, else the path itself.
std::filesystem::path RunOf(const std::filesystem::path& run_or_checkpoint);

// Settings of a run by a version that had no --split_seed, or no --exif_orientation, get what it did then: --seed chose
// the held-out samples, and photographs were used as they are stored.
void AddWhatEarlierVersionsDid(nlohmann::json& settings);

// Adds the settings to a weights file's metadata, from where TakeSettingsOfRun reads them.
void AddSettings(checkpoint::Metadata& metadata, const config::Config& config);

// Sets --image_size, unless it was given, to the size that the model was designed for: 224, or its own.
void TakeImageSizeOfModel(config::Config& config);

// For --mode=eval, predict and export: takes the settings of the model and of its data that were not given on the
// command line from the run, or from the file of weights. Returns lines for the log, which is not open yet. Throws
// StorageError if the stored configuration is damaged, UsageError if it is no run's.
std::vector<std::string> TakeSettingsOfRun(config::Config& config);

// Returns the name of the split that the named run was trained on if --data_dir and --labels are that run's, else
// empty.
std::string TrainSplitOfRun(const config::Config& config);

// Returns flags' values by their names. Weights of ours have the settings that they were trained with. Of others it is
// "model", that of --model if it can have them (there is none if no model of images has), its size, and what is kept
// beside them: how the model saw images (AddForeignImageSettings), which is held to what can be made here unless
// --model was given, or the weights are a teacher's, who sees the images of its student; ε, if config.json says another
// than the network has. Throws UsageError as AddForeignImageSettings does. Damaged weights say nothing: that is
// reported when they are read.
nlohmann::json SettingsOfWeights(const WeightsPlace& place, const config::Config& config, bool of_teacher = false);

// Sets --model to the model of --init_weights.
void TakeImageModelOfWeights(config::Config& config);

// Returns the names of the settings of images that are taken from weights which are named: normalisation and ε, which
// belong to the network, and without --model the sizes of images, too.
std::vector<std::string> ImageSettingNames(const config::Config& config);

// Takes ImageSettingNames from --init_weights of images. A run that goes on has what it began with, whether or not it
// names the weights again. Throws as FindWeights does.
void TakeImageSettingsOfWeights(config::Config& config);

}  // namespace dtrain::weights
