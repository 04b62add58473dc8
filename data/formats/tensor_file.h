// A data set in one safetensors file, for small data sets and for data that other frameworks have prepared: images with
// labels, or rows of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/safetensors_file.h"
#include "data/formats/token_dataset.h"
#include "data/record_source.h"

namespace dtrain::data {

// Returns the file of a split: in a folder `SPLIT.safetensors`, for "val" also `validation` and `valid`. If `data_dir`
// itself is a file, it serves every split except val (validation, valid). Empty if there is none.
std::optional<std::string> FindTensorFile(const std::string& data_dir, const std::string& split);

// The same, but throws DataError, which says which files were tried.
std::string RequireTensorFile(const std::string& data_dir, const std::string& split);

// `images` is float32 N×3×H×W (served unchanged), uint8 N×3×H×W or uint8 N×H×W×3; `labels` is int64 or int32, N. Images
// are read row by row when they are asked for; labels are held in memory.
class TensorFile : public RecordSource {
 public:
  // `user_offset` is subtracted from every label; if it is empty, the offset that follows from `classes`, which is what
  // is known of the set (labels.h). If nothing is known, the offset is 1 for labels that are exactly 1…C and 0
  // for any others. Throws DataError on missing tensors, other dtypes or shapes, labels that do not fit, or no rows.
  explicit TensorFile(const std::string& path, std::optional<int64_t> user_offset = std::nullopt, Classes classes = {});

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  RecordKind kind() const override { return RecordKind::kPixels; }
  RawRows rows() const override { return rows_; }
  int64_t Label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return classes_.names; }
  int64_t num_classes() const override { return classes_.count; }  // highest label + 1 if unknown
  std::optional<int64_t> label_offset() const override { return classes_.label_offset; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  void CheckImages();
  void ReadLabels();
  void ShiftLabels(std::optional<int64_t> user_offset);

  SafetensorsFile file_;
  RawRows rows_;
  uint64_t images_begin_ = 0;
  std::vector<int64_t> labels_;
  Classes classes_;
  std::string fingerprint_;
};

// Whether a safetensors file holds text: it has `input_ids`. Throws DataError if it is not a safetensors file.
bool HoldsTokenRows(const std::string& path);

// A record is a row: T int64 ids, then T int64 labels if the file has labels, then T int64 mask values if it has a
// mask.
class TokenTensorFile : public RecordSource {
 public:
  struct Layout {
    int64_t tokens = 0;  // T
    bool has_labels = false, has_mask = false;
    bool operator==(const Layout&) const = default;
  };

  // Throws DataError if `input_ids` is missing, dtypes or shapes do not fit, or there are no rows.
  explicit TokenTensorFile(const std::string& path);

  int64_t size() const override { return rows_; }
  RecordKind kind() const override { return RecordKind::kTokens; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  std::string fingerprint() const override { return fingerprint_; }

  const Layout& layout() const { return layout_; }

 private:
  // A tensor of the file, N×T.
  struct Tensor {
    TokenType type = TokenType::kInt64;
    uint64_t begin = 0;  // bytes, from the start of the data section
  };
  void Add(const std::string& name, std::string& description);
  void ReadRow(const Tensor& tensor, int64_t row, int64_t* values) const;

  SafetensorsFile file_;
  int64_t rows_ = 0;
  Layout layout_;
  std::vector<Tensor> tensors_;  // in the order of a record
  std::string fingerprint_;
};

}  // namespace dtrain::data
