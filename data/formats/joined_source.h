// Several sources as one: the records of the first, then those of the second, and so on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

class JoinedSource : public RecordSource {
 public:
  // `parts` are of one kind, without classes, and at least one.
  explicit JoinedSource(std::vector<std::unique_ptr<RecordSource>> parts);

  int64_t size() const override { return ends_.back(); }
  RecordKind kind() const override { return parts_.front()->kind(); }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  std::string fingerprint() const override { return fingerprint_; }

  // Returns the part that holds a record, and the record's index in it.
  std::pair<size_t, int64_t> PartOf(int64_t index) const;

 private:
  std::vector<std::unique_ptr<RecordSource>> parts_;
  std::vector<int64_t> ends_;  // index behind the last record of each part
  std::string fingerprint_;
};

}  // namespace dtrain::data
