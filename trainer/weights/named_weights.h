// Weights by the names that people know them by: roberta-base, timm/resnet18.a1_in1k, IMAGENET1K_V1. They are looked
// for where Hugging Face's and torch's own programs keep what they have fetched; nothing is fetched here.
#pragma once

#include <string>

#include "trainer/config/config.h"

namespace dtrain::weights {

// If --init_weights is no file or folder but such a name, sets it to the path in a cache, and returns a sentence for
// people; otherwise returns nothing. Throws UsageError with the one line that fetches the weights if no cache has them.
std::string FindNamedWeights(config::Config& config);

}  // namespace dtrain::weights
