#include "trainer/tasks/data_sets.h"

#include "data/image/check_headers.h"
#include "trainer/report/log.h"
#include "trainer/tasks/class_balance.h"
#include "trainer/tasks/val_fraction.h"

namespace dtrain::loop {
namespace {

// Whether `val` is a part of the training split, whose folder it shares.
bool IsHeldOut(const DataSplit& val, const DataSplit& train) { return val.name == NameOfHeldOut(train.name); }

}  // namespace

void LookThrough(const DataSets& sets, const config::DataConfig& config) {
  for (const auto* split : {&sets.train, &sets.val}) {
    if (!*split) continue;
    const data::RecordSource& source = *(*split)->source;
    const bool is_said_already = split == &sets.val && sets.train && IsHeldOut(*sets.val, *sets.train);
    const std::string ignored = is_said_already ? "" : data::ToText(source.ignored());
    if (!ignored.empty()) report::LogWarning((*split)->name + ": " + ignored);
    data::RequireGoodHeaders(
        source, {.split = (*split)->name, .max_bad_records = config.max_bad_records, .strict = config.strict},
        &report::LogWarning);
  }
  if (config.format != "synthetic") SayClassBalance(sets);
}

}  // namespace dtrain::loop
