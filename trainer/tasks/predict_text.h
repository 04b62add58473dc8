// --mode=predict for text models: token ids in, logits out.
#pragma once

#include <c10/core/Device.h>

#include "trainer/config/config.h"

namespace dtrain::tasks {

// Reads `input_ids` (any integer dtype, N×T) and, if present, `attention_mask` (N×T, 0 at padding) from the safetensors
// file --input, and writes `logits` (float32 N×T×vocabulary) to --output. Without a mask every <pad> is padding. Rows
// without a token have logits of 0, with a warning. Throws UsageError if --input is not a file, DataError if its
// tensors do not fit the model.
void PredictText(const config::Config& config, at::Device device);

}  // namespace dtrain::tasks
