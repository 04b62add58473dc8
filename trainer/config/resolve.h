// From what was said to what is meant: values that follow from others are filled in, so that --print_config and
// config.json show what a run really uses.
#pragma once

#include "trainer/config/config.h"

namespace dtrain::config {

// Fills the three batch sizes and --eval_resize. Call it once, on a configuration without problems.
void Resolve(Config& config, int world_size);

}  // namespace dtrain::config
