// The input of --mode=predict for programs: a safetensors file with token ids.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "models/text_options.h"

namespace dtrain::tasks {

struct TokenInput {
  at::Tensor ids, attended, types;  // int64, bool and int64, N×T; the last two may be undefined
};

// Reads input_ids, and attention_mask and token_type_ids, if there are any. Throws UsageError if `path` is no file,
// DataError if its tensors are not of the right kind.
TokenInput ReadTokenInput(const std::string& path);

// Throws DataError for tokens that the model does not know, and for rows that are too long for it. Warns of rows
// without a token.
void RequireKnown(const TokenInput& input, const models::TextShape& model, const std::string& path);

}  // namespace dtrain::tasks
