// What given weights tell of images: the model, and how it saw them.
#pragma once

#include "trainer/config/config.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {

// Sets --model to the model of images that has these weights, and --image_size to its own. Returns whether there is
// one.
bool RecogniseImageModel(const WeightsPlace& place, config::Config& config);

// Takes what is kept beside weights and was not given: timm's normalisation and size in config.json, those of
// transformers in preprocessor_config.json. The latter's images are evaluated whole but for a rectangle's ends, as
// run_image_classification.py does. Throws UsageError if a file is damaged.
void TakeForeignSettings(const WeightsPlace& place, config::Config& config);

// Both, for a run that trains with --init_weights and without --model; of weights of ours, the settings that they were
// trained with. Does nothing for other runs and weights.
// A run that goes on has what it began with, since the weights may be gone by then.
void TakeImageModelOfWeights(config::Config& config);

}  // namespace dtrain::weights
