// Opens the splits that a command works on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/prepare/options.h"
#include "data/record_source.h"

namespace dtrain::data {

struct OpenSplit {
  std::string name;  // train, val, or the value of --split
  std::unique_ptr<RecordSource> source;
};

// Returns the format that --data_format names, or else recognises it.
std::string FormatOf(const PrepareOptions& options);

// Opens --split, or train and val as far as they exist (at least one). Labels have the meaning that the training split
// gives them, even if it is not opened; if it does not exist, that of `classes`, else that of the first split. Throws
// DataError.
std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index, const Classes& classes = {});

// Returns --workers, or the number of cores that this process may use.
size_t Threads(const PrepareOptions& options);

}  // namespace dtrain::data
