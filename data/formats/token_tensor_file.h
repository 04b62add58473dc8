// Text in one safetensors file: rows of tokens, as other frameworks prepare them. `input_ids` N×T, optionally
// `attention_mask` N×T (0: padding) and `labels` N×T (-100: no loss), of any integer dtype.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/safetensors_file.h"
#include "data/record_source.h"

namespace dtrain::data {

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
    std::string dtype;
    uint64_t begin = 0;  // bytes, from the start of the data section
    int64_t element_bytes = 0;
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
