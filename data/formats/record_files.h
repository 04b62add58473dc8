// Which files of a folder are a split's: `train-00000-of-00010` (TFRecord), `train-00000.rec` (RecordIO),
// `train-000000.tar` (WebDataset), or files of these formats in a folder `train/`.
#pragma once

#include <string>
#include <vector>

namespace dtrain::data {

struct RecordFiles {
  std::string split;               // by the name found on disk: `validation` where `val` was asked for
  std::vector<std::string> names;  // relative to data_dir, sorted; empty: there are none
};

// `format`: tfrecord, recordio or webdataset. Throws DataError where shards of a numbered TFRecord set are missing.
RecordFiles FindRecordFiles(const std::string& data_dir, const std::string& split, const std::string& format);

// The same, but throws DataError saying what was looked for where there are none.
RecordFiles RequireRecordFiles(const std::string& data_dir, const std::string& split, const std::string& format);

}  // namespace dtrain::data
