// Records in shards (TFRecord, RecordIO, WebDataset) as a RecordSource, over an index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/open_files.h"
#include "data/formats/record_files.h"
#include "data/formats/record_format.h"
#include "data/formats/record_index.h"
#include "data/record_source.h"

namespace dtrain::data {

// The index of these files: the cached one where it fits them, else a new one, which is cached. A file whose size is
// unchanged is scanned with the help of what the old index said of it. `note` hears what went wrong in caching.
RecordIndex IndexRecordFiles(const RecordFormat& format, const std::string& data_dir, const RecordFiles& files,
                             const std::string& index_path, bool rebuild, const std::function<void(std::string)>& note);

class PackedRecords : public RecordSource {
 public:
  // `label_offset`: nullopt is auto (label_offset.h). Throws DataError where there is no record, or labels do not fit.
  PackedRecords(const RecordFormat& format, const std::string& data_dir, RecordIndex index,
                std::optional<int64_t> label_offset);

  int64_t size() const override { return static_cast<int64_t>(index_.records.size()); }
  int64_t Label(int64_t index) const override;
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return index_.class_names; }
  int64_t num_classes() const override { return num_classes_; }  // highest label + 1, or the number of names
  std::string fingerprint() const override { return index_.fingerprint; }

  int64_t label_offset() const { return label_offset_; }

 private:
  const RecordFormat& format_;
  std::string data_dir_;
  RecordIndex index_;
  int64_t label_offset_ = 0;
  int64_t num_classes_ = 0;
  mutable OpenFiles files_;
};

}  // namespace dtrain::data
