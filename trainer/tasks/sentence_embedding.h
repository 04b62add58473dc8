// Vectors of texts: how they are made of what the encoder computes for the tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/text_model.h"
#include "trainer/config/config.h"

namespace dtrain::tasks {

// Returns the vectors of sequences as --pooling and --normalize_vectors say, N×H, float32.
at::Tensor VectorsOf(models::TextModel& model, const models::Sequences& sequences, const config::TextConfig& config);

}  // namespace dtrain::tasks
