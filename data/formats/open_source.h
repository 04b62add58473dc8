// From a folder to a RecordSource: recognises the format and opens a split of it, for the trainer and for dtrain_data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

// Indexes (record_index.h) that could not be cached, by split, as bytes: made by one process and sent to the others, so
// that not each of them lists millions of files.
using IndexParcel = std::map<std::string, std::string>;

struct SourceOptions {
  std::string data_dir;
  std::string format;                        // imagefolder | tfrecord | recordio | webdataset | tokens | safetensors
  std::string index_dir = {};                // where indexes are kept; empty: beside the data
  std::optional<int64_t> label_offset = {};  // as the user says; nullopt: auto
  // What is known of the classes: those of the training split (RecordSource::classes) for another split, those of the
  // checkpoint for an evaluation. Labels are theirs, and what lies outside is refused. Nothing known: the split says
  // it.
  Classes classes = {};
  bool rebuild_index = false;
  bool keep_index = true;                      // false: one that has to be made is not written anywhere
  std::function<void(std::string)> note = {};  // hears what went wrong without being an error; may be empty
  // An index in here is used where all that it was made from is here, too, with the same sizes. One that was made but
  // could not be cached is added. May be null.
  IndexParcel* parcel = nullptr;
};

// The format of the first of these splits that is there. Throws DataError where there is none, or where several formats
// fit.
std::string DetectFormat(const std::string& data_dir, const std::vector<std::string>& splits);

bool HasSplit(const std::string& format, const std::string& data_dir, const std::string& split);

// Opens a split, making or loading its index. Records of tokens are lines (the blocks that a model sees:
// data/text/text_split.h). Throws DataError naming what is missing or does not fit.
std::unique_ptr<RecordSource> OpenSource(const SourceOptions& options, const std::string& split);

}  // namespace dtrain::data
