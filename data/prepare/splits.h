// Which splits a command works on, opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/prepare/options.h"
#include "data/record_source.h"

namespace dtrain::data {

struct OpenSplit {
  std::string name;  // train | val, or as --split says
  std::unique_ptr<RecordSource> source;
};

// The format that --data_format names or that is recognised.
std::string FormatOf(const PrepareOptions& options);

// --split, or train and val as far as they are there (one at least). Labels mean what the training split says, be it
// among them or not; without one what `classes` says, then what the first split says. Throws DataError.
std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index, const Classes& classes = {});

// --workers, or the cores that this process may use.
size_t Threads(const PrepareOptions& options);

}  // namespace dtrain::data
