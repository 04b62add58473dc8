#include "trainer/tasks/val_fraction.h"

#include <string>
#include <utility>

#include "data/pipeline/hold_out.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::tasks {
namespace {

std::string FractionText(const config::Config& config) {
  return "--val_fraction=" + config::ToText(config::Value(config.data.val_fraction));
}

}  // namespace

SplitSources HoldOutValidation(std::unique_ptr<data::RecordSource> whole, const config::Config& config) {
  const std::shared_ptr<const data::RecordSource> shared = std::move(whole);
  data::HeldOut parts = data::HoldOut(*shared, config.data.val_fraction, config.batch.seed);
  if (parts.val.empty()) {
    throw UsageError(FractionText(config) + " of the " + std::to_string(shared->size()) + " samples of split " +
                         config.data.train_split + " is less than one sample",
                     "raise it; each class needs two samples at least, of which one stays in the training split");
  }
  if (config.run.mode == "train") {
    report::LogInfo("validation: " + std::to_string(parts.val.size()) + " of the " + std::to_string(shared->size()) +
                    " samples of '" + config.data.train_split + "' (" + FractionText(config) +
                    "), the same share of each class; training does not use them");
  }
  return {std::make_unique<data::Subset>(shared, std::move(parts.train)),
          std::make_unique<data::Subset>(shared, std::move(parts.val))};
}

std::string NameOfHeldOut(const std::string& train_split) { return train_split + " (held out)"; }

bool HoldsOut(const config::Config& config, bool exists) {
  if (!(config.data.val_fraction > 0)) return false;
  if (!exists) return true;
  if (!config::WasGiven(config, "val_fraction")) return false;
  throw UsageError(FractionText(config) + " makes a validation split from a part of the training split, but " +
                       config.data.dir + " has one: '" + config::ValSplits(config.data).front() + "'",
                   "leave --val_fraction out, or move that split away");
}

}  // namespace dtrain::tasks
