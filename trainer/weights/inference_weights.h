// The weights of a trained model for --mode=eval, --mode=predict and --mode=export.
#pragma once

#include <filesystem>
#include <string>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::weights {

struct TrainedWeights {
  checkpoint::NamedTensors tensors;
  data::Classes classes;     // the classes that the checkpoint or the file names; may be unknown
  std::string origin;        // the file or checkpoint, for messages
  std::string model_config;  // the content of a text model's config.json; empty if unknown
  std::string held_out;      // fingerprint of the samples that --val_fraction held out; empty: none, or unknown
  std::string trained_on;    // fingerprint of the whole training split; empty: unknown
  NumberScale scale;         // of a model that predicts numbers
  int64_t step = 0;          // of the run; 0: unknown
};

// The keys of TrainedWeights::held_out and trained_on in state.json and in the metadata of files of weights.
inline constexpr char kHeldOutKey[] = "held_out";
inline constexpr char kTrainedOnKey[] = "trained_on";

// Reads the weights that --weights chooses of the run of --init_weights, or its file, else those of the run that
// NamedRun (run_settings.h) finds. Throws UsageError if no weights are named or the run lacks them, and as
// ReadInitialWeights does.
TrainedWeights ReadInferenceWeights(const config::Config& config);

// Reads the weights of a run directory or a checkpoint's folder. `which` is last, best, ema, or auto: best if the run
// has validated, else last. Throws UsageError if the run does not have them.
TrainedWeights ReadRunWeights(const std::filesystem::path& run, const std::string& which);

// Returns --num_classes, else the rows of the classifier in `weights`. Throws UsageError if these have no classifier.
int64_t NumClassesFor(const config::Config& config, const TrainedWeights& weights);

}  // namespace dtrain::weights
