// What given weights say of images: the model, how it saw them, and the ε of its norms.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/config/config.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {

// Returns flags' values by their names. Weights of ours have the settings that they were trained with. Of others it is
// "model", that of --model if it can have them (there is none if no model of images has), its size, and what is kept
// beside them: timm's normalisation and size in config.json; those of transformers in preprocessor_config.json, whose
// images are evaluated whole but for a rectangle's ends, as run_image_classification.py does; ε, if config.json says
// another than the network has. Throws UsageError if a file beside is damaged. Damaged weights say nothing: that is
// reported when they are read.
nlohmann::json SettingsOfWeights(const WeightsPlace& place, const config::Config& config);

// Sets --model to the model of --init_weights.
void TakeImageModelOfWeights(config::Config& config);

// Takes from --init_weights of images what was not given: normalisation and ε, which belong to the network, and without
// --model the sizes of images, too. A run that goes on has what it began with, whether or not it names the weights
// again. Throws as FindWeights does.
void TakeImageSettingsOfWeights(config::Config& config);

}  // namespace dtrain::weights
