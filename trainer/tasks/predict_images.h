// --mode=predict for image files and for tensors of pixels.
#pragma once

#include <c10/core/Device.h>

#include "trainer/config/config.h"
#include "trainer/tasks/feature_file.h"

namespace dtrain::tasks {

// Writes a table with the likeliest classes of each image, with its labels or numbers (prediction_table.h), or
// --features. A file that cannot be read gets a line with
// the reason; a warning gives their number. Throws DataError if --input holds no image, or none that can be read.
void PredictImages(const config::Config& config, at::Device device);

// Reads the tensor `images` (float32 N×3×H×W, normalised) from the safetensors file --input, and writes `logits`
// (float32 N×outputs; numbers in the labels' unit) to --output. Throws UsageError if --input is not a file, DataError
// if its tensors do not fit.
void PredictPixels(const config::Config& config, at::Device device);

}  // namespace dtrain::tasks
