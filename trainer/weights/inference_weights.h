// A trained model for --mode=eval and --mode=predict.
#pragma once

#include <filesystem>
#include <string>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::loop {

struct TrainedWeights {
  checkpoint::NamedTensors tensors;
  data::Classes classes;     // what the checkpoint or the file knows of them
  std::string origin;        // for people
  std::string model_config;  // a model of text: its config.json; empty: not known
};

// Of --init_weights, else those that --weights says of the run that NamedRun (run_settings.h) finds. Throws UsageError
// where nothing is named, or the run has no such weights.
TrainedWeights ReadInferenceWeights(const config::Config& config);

// The same of a run directory or a checkpoint's folder. `which`: last, best or ema.
TrainedWeights ReadRunWeights(const std::filesystem::path& run, const std::string& which);

// --num_classes, or the rows of the classifier.
int64_t NumClassesFor(const config::Config& config, const TrainedWeights& weights);

// What they know of their classes: how many, at least. Nothing for models of text.
data::Classes ClassesOf(const config::Config& config, const TrainedWeights& weights);

}  // namespace dtrain::loop
