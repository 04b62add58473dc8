// Generated records, for measuring everything except storage: a read is one memcpy from a small pool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

// `size` records of random uint8 H×W×3 pixels (only 32 of them differ) with random labels. Equal arguments give equal
// records.
class Synthetic : public RecordSource {
 public:
  // Throws DataError if size, num_classes, height or width is below 1.
  Synthetic(int64_t size, int64_t num_classes, int64_t height, int64_t width, int64_t seed = 0);

  int64_t size() const override { return size_; }
  RecordKind kind() const override { return RecordKind::kPixels; }
  RawRows rows() const override { return rows_; }
  int64_t Label(int64_t index) const override;
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;  // a made-up place, for messages
  int64_t num_classes() const override { return num_classes_; }
  std::string fingerprint() const override;

 private:
  int64_t size_, num_classes_, seed_;
  RawRows rows_;
  std::vector<uint8_t> pool_;
};

}  // namespace dtrain::data
