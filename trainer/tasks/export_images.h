// --mode=export for models of images.
#pragma once

#include "trainer/config/config.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::loop {

// Writes the weights to --output: a file under the names of torchvision or timm, or a folder that timm loads. Throws
// UsageError if --weights_naming is that of text, or if unknown weights were to be renamed.
void ExportImages(TrainedWeights weights, const config::Config& config, bool to_file);

}  // namespace dtrain::loop
