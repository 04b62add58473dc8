// Finds the record files of a split, its shards: `train-00000-of-00010`, `train-000000.tar` and the like, or files of
// the format in a folder `train/`.
#pragma once

#include <string>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

struct RecordFiles {
  std::string split;               // the name found on disk, such as `validation` for `val`
  std::vector<std::string> names;  // relative to data_dir, sorted; empty if there are none
};

// Throws DataError if files of a numbered set are missing.
RecordFiles FindRecordFiles(const std::string& data_dir, const std::string& split, const RecordFormat& format);

// The same, but throws DataError, which names the patterns that were tried, if there are none.
RecordFiles RequireRecordFiles(const std::string& data_dir, const std::string& split, const RecordFormat& format);

}  // namespace dtrain::data
