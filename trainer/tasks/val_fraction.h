// --val_fraction: a set of one split becomes one of two.
#pragma once

#include <memory>
#include <string>

#include "data/pipeline/hold_out.h"
#include "data/record_source.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

struct SplitSources {
  std::unique_ptr<data::Subset> train, val;
};

// Both are parts of `whole`. Throws UsageError where the share is no sample.
SplitSources HoldOutValidation(std::unique_ptr<data::RecordSource> whole, const config::Config& config);

// What the held-out part of this split is called in messages and records.
std::string NameOfHeldOut(const std::string& train_split);

// `exists`: there is a split called --val_split. Whether --val_fraction makes one: one that is there is evaluated on
// where the fraction is but the evaluated run's. Throws UsageError where it was given.
bool HoldsOut(const config::Config& config, bool exists);

}  // namespace dtrain::loop
