// Every mistake in a configuration, found before anything is opened or allocated: pure functions, so that a dry run on
// a laptop says what a cluster would say. Ranges and choices come from the table in flags.cc; here are the rules that
// relate one flag to another.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/problem.h"

namespace dtrain::config {

// All problems, in the order of the help; empty when the configuration is valid. `world_size` is the number of ranks
// that the launcher announced; `model_names` are the models that exist (empty: the model is not checked).
std::vector<Problem> Problems(const Config& config, int world_size, const std::vector<std::string>& model_names);

// The flags in use that change the pixels of randomly cropped images, and those alone: "--blur, --random_erasing".
std::string FlagsThatNeedCrops(const ImageConfig& image);

// Throws one UsageError that describes all problems, if there are any.
void RequireValid(const Config& config, int world_size, const std::vector<std::string>& model_names);

}  // namespace dtrain::config
