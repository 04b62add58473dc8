// The order of a state_dict. Checkpoints here are sorted by name, but PyTorch's programs keep the order of a model's
// modules, and people compare files by it.
#pragma once

#include <string>

#include "trainer/checkpoint/safetensors.h"

namespace dtrain::weights {

// Returns the tensors of a `model` in the order in which torchvision's, Hugging Face's and fairseq's models (not
// timm's) list them (models::Family::name_order); of an unknown one (empty) as any of the families would.
checkpoint::NamedTensors InStateDictOrder(checkpoint::NamedTensors tensors, const std::string& model);

}  // namespace dtrain::weights
