#include "trainer/tasks/data_sets.h"

#include "data/image/check_headers.h"
#include "data/image/exif_orientation.h"
#include "data/joined.h"
#include "trainer/report/log.h"
#include "trainer/tasks/class_balance.h"

namespace dtrain::tasks {
namespace {

// Whether `val` is a part of the training split, whose folder it shares.
bool IsHeldOut(const DataSplit& val, const DataSplit& train) { return val.name == NameOfHeldOut(train.name); }

}  // namespace

std::string NameOfHeldOut(const std::string& train_split) { return train_split + " (held out)"; }

std::vector<const DataSplit*> ValidationSets(const DataSets& sets) {
  std::vector<const DataSplit*> splits;
  if (sets.val) splits.push_back(&*sets.val);
  for (const DataSplit& split : sets.further_val) splits.push_back(&split);
  return splits;
}

std::vector<const DataSplit*> AllSplits(const DataSets& sets) {
  std::vector<const DataSplit*> splits = ValidationSets(sets);
  if (sets.train) splits.insert(splits.begin(), &*sets.train);
  return splits;
}

std::string ValFingerprint(const DataSets& sets) {
  return Joined(ValidationSets(sets), ",", [](const DataSplit* split) { return split->source->fingerprint(); });
}

void LookThrough(const DataSets& sets, const config::Config& config) {
  for (const DataSplit* split : AllSplits(sets)) {
    const data::RecordSource& source = *split->source;
    const bool is_said_already = sets.train && IsHeldOut(*split, *sets.train);
    const std::string ignored = is_said_already ? "" : data::ToText(source.ignored());
    if (!ignored.empty()) report::LogWarning(split->name + ": " + ignored);
    data::RequireGoodHeaders(
        source, {.split = split->name, .max_bad_records = config.data.max_bad_records, .strict = config.data.strict},
        &report::LogWarning);
    if (config.image.exif_orientation || is_said_already) continue;
    const std::string turned = data::SayTurned(data::CountTurned(source), split->name);
    if (!turned.empty()) report::LogWarning(turned);
  }
  if (config.data.format != "synthetic") SayClassBalance(sets);
}

}  // namespace dtrain::tasks
