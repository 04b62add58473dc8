// --mode=predict of text models.
#pragma once

#include <c10/core/Device.h>

#include "trainer/config/config.h"

namespace dtrain::loop {

// `input_ids` (int64 or int32, N×T) and, if it is there, `attention_mask` (N×T, 0 where there is padding) of --input →
// `logits`, float32 N×T×words, in --output. Without a mask <pad> is padding.
void PredictText(const config::Config& config, at::Device device);

}  // namespace dtrain::loop
