// A trained model for --mode=eval and --mode=predict.
#pragma once

#include <memory>

#include "models/image_model.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// Of --init_weights, else of the checkpoint that --resume=PATH or --run_dir names. Throws UsageError where neither is
// given.
checkpoint::SafetensorsContent ReadInferenceWeights(const config::Config& config);

// Of a checkpoint's folder, or of the newest checkpoint of a run directory; with the model_config of a model of text.
checkpoint::SafetensorsContent ReadCheckpointWeights(const std::string& path);

// The model with these weights. Its number of classes is --num_classes, or the weights' own.
std::shared_ptr<models::ImageModel> MakeInferenceModel(const config::Config& config,
                                                       const checkpoint::NamedTensors& weights, at::Device device);

}  // namespace dtrain::loop
