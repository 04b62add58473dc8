#include "trainer/tasks/open_text_splits.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "data/formats/open_source.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/report/log.h"
#include "trainer/tasks/val_fraction.h"

namespace dtrain::tasks {
namespace {

// `train` has the whole training split, `val` its decoder; each gets its part.
void KeepParts(DataSplit& train, DataSplit& val, const config::Config& config) {
  SplitSources parts = HoldOutValidation(std::move(train.source), config);
  for (int64_t i = 0; !train.texts.empty() && i < parts.val->size(); ++i) {
    val.texts.push_back(train.texts[static_cast<size_t>(parts.val->PositionOf(i))]);
  }
  const auto keep = [of_whole = train.length](DataSplit& split, std::unique_ptr<data::Subset> part) {
    split.length = [of_whole, part = part.get()](int64_t index) { return of_whole(part->PositionOf(index)); };
    split.source = std::move(part);
  };
  keep(train, std::move(parts.train));
  keep(val, std::move(parts.val));
  val.name = NameOfHeldOut(train.name);
}

}  // namespace

void OpenTextSplits(const config::Config& config, const std::string& format, const SplitOpener& open, DataSets& sets) {
  const bool training = config.run.mode == "train";
  std::error_code unreadable;
  const bool is_file = std::filesystem::is_regular_file(config.data.dir, unreadable);  // the file is the split
  const std::vector<std::string> names = config::ValSplits(config.data);
  const bool has_val = data::HasSplit(format, config.data.dir, names.front());
  const bool holds_out = HoldsOut(config, has_val);
  if (training || holds_out) sets.train = open(config.data.train_split, /*is_again=*/false);
  if (holds_out) {
    sets.val = open(config.data.train_split, /*is_again=*/true);
    KeepParts(*sets.train, *sets.val, config);
    if (!training) sets.train.reset();
  } else if (!training && is_file) {
    sets.val = open(config.data.train_split, /*is_again=*/false);
  } else if (!training || has_val || config::WasGiven(config, "val_split")) {
    sets.val = open(names.front(), /*is_again=*/false);
    for (size_t i = 1; i < names.size(); ++i) sets.further_val.push_back(open(names[i], /*is_again=*/false));
  } else if (!is_file) {
    report::LogWarning(
        "there is no '" + names.front() + "' split in " + config.data.dir +
        ": the run goes on without validation; --val_split names another one, --val_fraction=0.1 makes one");
  }
}

}  // namespace dtrain::tasks
