// Decides which splits of text a mode opens, for all tasks of text.
#pragma once

#include <functional>
#include <string>

#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

// Opens the split of this name. `is_again`: the split was opened before, and only another decoder is needed.
using SplitOpener = std::function<DataSplit(const std::string& name, bool is_again)>;

// Opens what TaskKind::OpenData says. The training split is opened first. A training run without the validation split
// of the default name goes on, with a warning. Throws as `open` and HoldOutValidation do.
void OpenTextSplits(const config::Config& config, const std::string& format, const SplitOpener& open, DataSets& sets);

}  // namespace dtrain::tasks
