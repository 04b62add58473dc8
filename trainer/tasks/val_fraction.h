// --val_fraction: divides the training split into a training and a validation part.
#pragma once

#include <memory>
#include <string>

#include "data/pipeline/hold_out.h"
#include "data/record_source.h"
#include "trainer/config/config.h"

namespace dtrain::tasks {

struct SplitSources {
  std::unique_ptr<data::Subset> train, val;
};

// Divides `whole`, which both parts keep open. Throws UsageError if no sample would be held out.
SplitSources HoldOutValidation(std::unique_ptr<data::RecordSource> whole, const config::Config& config);

// The name of the held-out part of `train_split` in messages and records.
std::string NameOfHeldOut(const std::string& train_split);

// Whether --val_fraction makes the validation split. `exists`: the data has a split named --val_split. That one is used
// if the fraction comes from the settings of the run that is evaluated; if --val_fraction was given on the command
// line, UsageError is thrown.
bool HoldsOut(const config::Config& config, bool exists);

}  // namespace dtrain::tasks
