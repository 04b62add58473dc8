// Makes a validation split for data that has none: a share of the training split, which training then leaves out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

struct HeldOut {
  std::vector<int64_t> train, val;  // positions in the whole, ascending; together they are all positions
};

struct HoldOutOptions {
  double fraction = 0;  // between 0 and 1, exclusive; not used with folds
  int64_t seed = 0;
  int64_t fold = 0, folds = 0;  // from 1; of the folds, each record is in one; 0: a fraction instead
  // By position in the whole: records of one group, such as the photographs of one patient, are all in one part.
  // Records without a name, or all if the list is empty, are alone.
  std::vector<std::string> groups = {};
};

// Holds out `fraction` of the records, rounded, or one of `folds` equal parts, and of each class as near to that share
// as whole groups allow; a group is of the class of its first record in the random order. With a fraction, at least one
// group of each class stays in `train`. The result depends only on the labels and the options.
HeldOut HoldOut(const RecordSource& whole, const HoldOutOptions& options);

// The records of `whole` at `positions`, in that order.
class Subset : public SourceView {
 public:
  Subset(std::shared_ptr<const RecordSource> whole, std::vector<int64_t> positions);

  int64_t PositionOf(int64_t index) const override { return positions_[static_cast<size_t>(index)]; }
  int64_t size() const override { return static_cast<int64_t>(positions_.size()); }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  const std::vector<int64_t> positions_;
  const std::string fingerprint_;  // over the whole's fingerprint and the positions
};

}  // namespace dtrain::data
