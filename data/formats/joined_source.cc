#include "data/formats/joined_source.h"

#include <algorithm>

#include "data/sha256.h"

namespace dtrain::data {

JoinedSource::JoinedSource(std::vector<std::unique_ptr<RecordSource>> parts) : parts_(std::move(parts)) {
  Sha256 hash;
  for (const auto& part : parts_) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
    hash.UpdateText(part->fingerprint());
  }
  fingerprint_ = hash.Hex();
}

std::vector<uint8_t> JoinedSource::Read(int64_t index) const {
  const auto [part, inside] = PartOf(index);
  return parts_[part]->Read(inside);
}

RecordPlace JoinedSource::Place(int64_t index) const {
  const auto [part, inside] = PartOf(index);
  return parts_[part]->Place(inside);
}

std::pair<size_t, int64_t> JoinedSource::PartOf(int64_t index) const {
  const auto part = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return {part, index - (part == 0 ? 0 : ends_[part - 1])};
}

}  // namespace dtrain::data
