// Decides which splits a mode opens, for all tasks: the training split, and validation sets of their own or a part of
// the training split (--val_fraction).
#pragma once

#include <functional>
#include <string>

#include "data/formats/image_table.h"
#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

// What a split is opened for. kHeldOut: the validation part of the training split, which has been opened before; only
// its decoder is needed, and the source may be null.
enum class SplitPart { kTrain, kVal, kHeldOut };

using SplitOpener = std::function<DataSplit(const std::string& name, SplitPart part)>;

// --labels and its columns.
data::LabelTable LabelTableOf(const config::DataConfig& data);

// What people call the data: --labels, or else --data_dir.
const std::string& DataName(const config::DataConfig& data);

// Whether there is such a split, in --labels or in data of this format.
bool HasSplit(const config::DataConfig& data, const std::string& format, const std::string& split);

// Whether --data_dir or --labels names one file without splits, which serves every split but a validation split.
bool IsOneFile(const config::DataConfig& data);

// Returns --data_format, or with auto the format of the files in --data_dir; "table" with --labels.
std::string FormatOf(const config::DataConfig& data);

// Opens what TaskKind::OpenData says. The training split is opened first. A training run without the validation split
// of the default name goes on, with a warning. Throws DataError if a validation split is missing that was named or is
// to be evaluated, UsageError if there is one beside an explicit --val_fraction, or no sample would be held out, and as
// `open` does.
void OpenSplits(const config::Config& config, const std::string& format, const SplitOpener& open, DataSets& sets);

}  // namespace dtrain::tasks
