// Finds every mistake in a configuration before anything is opened or allocated. The functions are pure, so that a dry
// run on a laptop finds what a cluster would find. Ranges and choices come from the table in flags.cc; the rules that
// relate one flag to another are here.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/flag_uses.h"
#include "trainer/config/problem.h"

namespace dtrain::config {

// Returns all problems in the order of the help; empty if the configuration is valid. `world_size` is the number of
// ranks that the launcher announced.
std::vector<Problem> Problems(const Config& config, int world_size, const ModelFacts& models);

// Returns those of single flags: values outside of their ranges, words that are no choice.
std::vector<Problem> OutOfRange(const Config& config);

// Returns the flags in use that have an effect on randomly cropped images only: "--blur, --random_erasing".
std::string FlagsThatNeedCrops(const ImageConfig& image);

// Throws one UsageError that describes all problems if there are any.
void RequireValid(const Config& config, int world_size, const ModelFacts& models);

}  // namespace dtrain::config
