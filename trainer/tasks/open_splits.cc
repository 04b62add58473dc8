#include "trainer/tasks/open_splits.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <regex>
#include <system_error>
#include <tuple>
#include <utility>

#include "data/formats/open_source.h"
#include "data/formats/sentence_files.h"
#include "data/joined.h"
#include "data/pipeline/hold_out.h"
#include "data/storage.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::tasks {
namespace {

std::string FractionText(const config::Config& config) {
  if (!config.data.val_fold.empty()) return "--val_fold=" + config.data.val_fold;
  return "--val_fraction=" + config::ToText(config.data.val_fraction);
}

// Whether --val_fraction makes the validation split. `exists`: the data has a split named --val_split. That one is used
// if the fraction comes from the settings of the run that is evaluated, and missed if it was given.
bool HoldsOut(const config::Config& config, bool exists) {
  if (!(config.data.val_fraction > 0) && config.data.val_fold.empty()) return false;
  if (!exists) return !config::NamesValSplit(config);
  if (!config::WasGiven(config, "val_fraction") && !config::WasGiven(config, "val_fold")) return false;
  throw UsageError(FractionText(config) + " makes a validation split from a part of the training split, but " +
                       DataName(config.data) + " has one: '" + config::ValSplits(config.data).front() + "'",
                   "leave it out, or move that split away");
}

// "photos" where --train_split=. says that the folders of classes are in --data_dir=photos itself.
std::string NameForPeople(const std::string& split, const config::DataConfig& data) {
  std::error_code unreadable;
  const std::string folder = std::filesystem::weakly_canonical(data.dir, unreadable).filename().string();
  return split != "." || folder.empty() ? split : folder;
}

// The names of the groups of samples, which --group_pattern and --group_column give, or a table that has an image
// twice; empty without any.
std::vector<std::string> GroupsOf(DataSplit& train, const config::DataConfig& data) {
  if (data.group_pattern.empty()) return std::move(train.groups);
  std::vector<std::string> groups;
  int64_t with_group = 0;
  try {
    const std::regex pattern(data.group_pattern);
    for (int64_t i = 0; i < train.source->size(); ++i) {
      const data::RecordPlace place = train.source->Place(i);
      if (place.offset)
        throw UsageError("--group_pattern is for image files: these are records in files", "leave it out");
      const std::filesystem::path file = place.file;
      std::string name = (file.parent_path().filename() / file.filename()).string();
      std::smatch found;
      bool has_group = std::regex_search(name, found, pattern);
      if (!has_group) {  // the group may be a folder within that of the class
        name = file.lexically_relative(data.dir).string();
        has_group = std::regex_search(name, found, pattern);
      }
      with_group += has_group ? 1 : 0;
      const std::string twins = train.groups.empty() ? "" : train.groups[static_cast<size_t>(i)];
      groups.push_back(!has_group ? twins : found.size() > 1 ? found.str(1) : found.str(0));
    }
  } catch (const std::regex_error& error) {
    throw UsageError("--group_pattern=" + data.group_pattern + " is no regular expression: " + error.what(),
                     "write one in ECMAScript's syntax, as in '(patient[0-9]+)'");
  }
  const int64_t without = train.source->size() - with_group;
  const std::string what = "--group_pattern=" + data.group_pattern + " matches ";
  if (with_group == 0) {
    throw UsageError(what + "no image, such as " + train.source->Place(0).file,
                     "it is looked for in CLASS/FILE, and in the path below --data_dir");
  }
  if (without > 0) report::LogWarning(what + "not " + CountOf(without, "image") + ", each a group by itself");
  return groups;
}

data::HoldOutOptions HoldOutOptionsOf(DataSplit& train, const config::DataConfig& data) {
  data::HoldOutOptions options{.fraction = data.val_fraction, .seed = data.split_seed, .groups = GroupsOf(train, data)};
  if (const auto fold = config::ParseFold(data.val_fold)) std::tie(options.fold, options.folds) = *fold;
  return options;
}

// `train` has the whole training split, `val` its decoder; each gets its part.
void KeepParts(DataSplit& train, DataSplit& val, const config::Config& config) {
  const data::HoldOutOptions options = HoldOutOptionsOf(train, config.data);
  const std::shared_ptr<const data::RecordSource> whole = std::move(train.source);
  data::HeldOut positions = data::HoldOut(*whole, options);
  if (positions.val.empty()) {
    throw UsageError(FractionText(config) + " of the " + std::to_string(whole->size()) + " samples of split " +
                         train.name + " is less than one sample",
                     "raise it; each class needs two samples at least, of which one stays in the training split");
  }
  if (positions.train.empty()) {
    throw UsageError(FractionText(config) + ": all samples of split " + train.name + " are one group",
                     "check --group_pattern or --group_column: each group is in one part");
  }
  const bool asks_for_groups = !config.data.group_pattern.empty() || !config.data.group_column.empty();
  if (config.run.mode == "train") {
    report::LogInfo("validation: " + std::to_string(positions.val.size()) + " of the " + std::to_string(whole->size()) +
                    " samples of '" + train.name + "' (" + FractionText(config) + ")" +
                    (asks_for_groups ? ", whole groups of them" : "") + "; training does not use them");
  }
  for (size_t i = 0; !train.texts.empty() && i < positions.val.size(); ++i) {
    val.texts.push_back(train.texts[static_cast<size_t>(positions.val[i])]);
  }
  const auto keep = [&whole, of_whole = train.length](DataSplit& split, std::vector<int64_t> of_part) {
    auto part = std::make_unique<data::Subset>(whole, std::move(of_part));
    if (of_whole) split.length = [of_whole, at = part.get()](int64_t index) { return of_whole(at->PositionOf(index)); };
    split.source = std::move(part);
  };
  train.whole = val.whole = whole->fingerprint();
  val.words = train.words;
  keep(train, std::move(positions.train));
  keep(val, std::move(positions.val));
  val.name = train.name + " (held out)";
}

// Lists the content of a folder, for people who look for a split. Names of folders end with a slash.
std::string FoundIn(const std::string& folder) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  try {
    data::List(folder, [&names](const std::string& name, data::PathKind kind) {
      const bool is_shown = !name.starts_with(".") && !name.ends_with(".index");
      if (is_shown) names.push_back(name + (kind == data::PathKind::kFolder ? "/" : ""));
      return true;
    });
  } catch (const DataError&) {  // nothing can be seen there
  }
  if (names.empty()) return "nothing";
  std::ranges::sort(names);
  return FirstOf(names, kShown) + (names.size() > kShown ? " (" + std::to_string(names.size()) + ")" : "");
}

// Throws DataError if what lies there under the name of a split is neither a file nor a folder: a pipe, or a link to
// what does not exist.
void RequireReadable(const std::string& split, const std::string& folder) {
  if (!data::IsFolder(folder)) return;
  data::List(folder, [&](const std::string& entry, data::PathKind kind) {
    const auto is_its_name = [&entry](const std::string& name) {
      return entry == name || entry.starts_with(name + ".") || entry.starts_with(name + "-");
    };
    if (kind != data::PathKind::kOther) return true;
    if (!std::ranges::any_of(data::SentenceSplitNames(split), is_its_name)) return true;
    throw DataError(folder + "/" + entry + " is neither a file nor a folder, but a pipe, a device or a link to nothing",
                    "put the '" + split + "' split itself there, or take this away");
  });
}

// Whether there is this validation split. Only a training run without the split of the default name can go on.
bool HasValidation(const std::string& split, const std::string& format, const config::Config& config) {
  const std::string& folder = config.data.dir;
  // Whatever a split is called, one file has the same samples.
  const bool trains_on_it = config.run.mode == "train" && IsOneFile(config.data) && split != config.data.train_split;
  if (!trains_on_it && HasSplit(config.data, format, split)) return true;
  const bool is_table = !config.data.labels.empty();
  if (!is_table) RequireReadable(split, folder);
  const std::string what = "there is no '" + split + "' split in " + DataName(config.data) + ", which holds " +
                           (is_table ? Joined(data::SplitsIn(LabelTableOf(config.data))) : FoundIn(folder));
  if (config.run.mode != "train" || config::WasGiven(config, "val_split")) {
    throw DataError(what,
                    "name an existing split with --val_split (. is the folder itself), or make one with "
                    "--val_fraction=0.1");
  }
  if (!IsOneFile(config.data)) {
    report::LogWarning(what +
                       ": the run goes on without validation; name another split with --val_split, or make one with "
                       "--val_fraction=0.1");
  }
  return false;
}

}  // namespace

const std::string& DataName(const config::DataConfig& data) { return data.labels.empty() ? data.dir : data.labels; }

data::LabelTable LabelTableOf(const config::DataConfig& data) {
  return {.path = data.labels,
          .image_column = data.image_column,
          .label_column = data.label_column,
          .split_column = data.split_column,
          .group_column = data.group_column,
          .separator = data.label_separator,
          .delimiter = data::DelimiterNamed(data.csv_delimiter)};
}

bool HasSplit(const config::DataConfig& data, const std::string& format, const std::string& split) {
  return data.labels.empty() ? data::HasSplit(format, data.dir, split) : data::HasSplit(LabelTableOf(data), split);
}

bool IsOneFile(const config::DataConfig& data) {
  return data.labels.empty() ? data::IsFile(data.dir) : data::SplitsIn(LabelTableOf(data)).empty();
}

std::string FormatOf(const config::DataConfig& data) {
  if (!data.labels.empty()) return "table";
  if (data.format != "auto") return data.format;
  return data::DetectFormat(data.dir, {data.train_split, config::ValSplits(data).front()});
}

void OpenSplits(const config::Config& config, const std::string& format, const SplitOpener& opener, DataSets& sets) {
  const auto open = [&](const std::string& name, SplitPart part) {
    DataSplit split = opener(name, part);
    split.name = NameForPeople(split.name, config.data);
    return split;
  };
  const bool training = config.run.mode == "train";
  const std::string& train_split = config.data.train_split;
  const std::vector<std::string> names = config::ValSplits(config.data);
  const bool holds_out = HoldsOut(config, HasSplit(config.data, format, names.front()));
  if (training || holds_out) sets.train = open(train_split, SplitPart::kTrain);
  if (holds_out) {
    sets.val = open(train_split, SplitPart::kHeldOut);
    KeepParts(*sets.train, *sets.val, config);
    if (!training) sets.train.reset();
  } else if (!training && IsOneFile(config.data)) {
    sets.val = open(train_split, SplitPart::kVal);
  } else if (HasValidation(names.front(), format, config)) {
    sets.val = open(names.front(), SplitPart::kVal);
    for (size_t i = 1; i < names.size() && HasValidation(names[i], format, config); ++i) {
      sets.further_val.push_back(open(names[i], SplitPart::kVal));
    }
  }
}

}  // namespace dtrain::tasks
