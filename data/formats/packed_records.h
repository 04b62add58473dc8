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
// unchanged is scanned with the help of what the old index said of it. `note` hears what went wrong in caching, which
// is left out with `keep` false.
RecordIndex IndexRecordFiles(const RecordFormat& format, const std::string& data_dir, const RecordFiles& files,
                             const std::string& index_path, bool rebuild, const std::function<void(std::string)>& note,
                             bool keep = true);

// Names the classes of record files, one a line, in the order of the labels: names of folders are lost in them.
inline constexpr char kClassFile[] = "classes.txt";

// What that file in `data_dir` says; empty where there is none.
std::vector<std::string> ReadClassNames(const std::string& data_dir);

class PackedRecords : public RecordSource {
 public:
  // `said`: what the user calls the first class, if he does (label_offset.h). `classes`: what is known of the set;
  // names are else those of the index. Throws DataError where there is no record, or labels or names do not fit.
  PackedRecords(const RecordFormat& format, const std::string& data_dir, RecordIndex index, std::optional<int64_t> said,
                Classes classes = {});

  int64_t size() const override { return static_cast<int64_t>(index_.records.size()); }
  int64_t Label(int64_t index) const override;
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return classes_.names; }
  // Where neither it nor names are given: the highest label + 1.
  int64_t num_classes() const override { return classes_.count; }
  std::optional<int64_t> label_offset() const override { return classes_.label_offset; }
  std::string fingerprint() const override { return index_.fingerprint; }

 private:
  const RecordFormat& format_;
  std::string data_dir_;
  RecordIndex index_;
  Classes classes_;
  mutable OpenFiles files_;
};

}  // namespace dtrain::data
