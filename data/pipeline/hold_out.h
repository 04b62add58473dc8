// Makes a validation split for data that has none: a share of the training split, which training then leaves out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

struct HeldOut {
  std::vector<int64_t> train, val;  // positions in the whole, ascending; together they are all positions
};

// Holds out `fraction` (between 0 and 1, exclusive) of the records, rounded, and of each class as near to that share as
// whole numbers allow. At least one record of each class stays in `train`. The result depends only on the labels and on
// `seed`.
HeldOut HoldOut(const RecordSource& whole, double fraction, int64_t seed);

// The records of `whole` at `positions`, in that order.
class Subset : public RecordSource {
 public:
  Subset(std::shared_ptr<const RecordSource> whole, std::vector<int64_t> positions);

  // Returns the position in the whole.
  int64_t PositionOf(int64_t index) const { return positions_[static_cast<size_t>(index)]; }

  int64_t size() const override { return static_cast<int64_t>(positions_.size()); }
  RecordKind kind() const override { return whole_->kind(); }
  RawRows rows() const override { return whole_->rows(); }
  int64_t Label(int64_t index) const override { return whole_->Label(PositionOf(index)); }
  std::vector<uint8_t> Read(int64_t index) const override { return whole_->Read(PositionOf(index)); }
  RecordPlace Place(int64_t index) const override { return whole_->Place(PositionOf(index)); }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  int64_t num_classes() const override { return whole_->num_classes(); }
  std::optional<int64_t> label_offset() const override { return whole_->label_offset(); }
  IgnoredFiles ignored() const override { return whole_->ignored(); }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  const std::shared_ptr<const RecordSource> whole_;
  const std::vector<int64_t> positions_;
  const std::string fingerprint_;  // over the whole's fingerprint and the positions
};

}  // namespace dtrain::data
