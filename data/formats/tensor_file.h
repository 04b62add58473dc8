// A data set in one safetensors file: tensors `images` and `labels`. The door for small sets and for other frameworks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/safetensors_file.h"
#include "data/record_source.h"

namespace dtrain::data {

// The file of one split: below a folder `SPLIT.safetensors`, for "val" also `validation` and `valid`. A data_dir that
// is a file serves every split but val (validation, valid), which it does not have. nullopt if there is none.
std::optional<std::string> FindTensorFile(const std::string& data_dir, const std::string& split);

// The same, but throws DataError saying what was looked for.
std::string RequireTensorFile(const std::string& data_dir, const std::string& split);

// `images`: float32 N×3×H×W (served untouched), uint8 N×3×H×W or uint8 N×H×W×3; `labels`: int64 or int32, N. Labels
// that are exactly 1…C become 0…C−1. Images are read row by row when asked for, labels are held in memory.
class TensorFile : public RecordSource {
 public:
  // `said` is subtracted from every label; nullopt: what `classes`, which is known of the set, says, else 1 for labels
  // that are exactly 1…C, and 0 for any others. Throws DataError on missing tensors, other dtypes or shapes, labels
  // that do not fit, or no rows.
  explicit TensorFile(const std::string& path, std::optional<int64_t> said = std::nullopt, Classes classes = {});

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  RecordKind kind() const override { return RecordKind::kPixels; }
  RawRows rows() const override { return rows_; }
  int64_t Label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return classes_.names; }
  int64_t num_classes() const override { return classes_.count; }  // where it is not given: highest label + 1
  std::optional<int64_t> label_offset() const override { return classes_.label_offset; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  void CheckImages();
  void ReadLabels();
  void ShiftLabels(std::optional<int64_t> said);

  SafetensorsFile file_;
  RawRows rows_;
  uint64_t images_begin_ = 0;
  std::vector<int64_t> labels_;
  Classes classes_;
  std::string fingerprint_;
};

}  // namespace dtrain::data
