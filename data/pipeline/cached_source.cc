#include "data/pipeline/cached_source.h"

#include <cstdio>

namespace dtrain::data {

std::vector<uint8_t> CachedSource::Read(int64_t index) const {
  if (auto found = cache_->Find(first_ + index)) return std::move(*found);
  std::vector<uint8_t> bytes = source_->Read(index);
  if (!cache_->Keep(first_ + index, bytes) && cache_->FirstToFindItFull()) {
    char text[200];
    std::snprintf(
        text, sizeof text,
        "--cache=ram: %.1f GiB hold %lld records and are full; the others are read from storage in every epoch "
        "(pack the images resized, or use more machines)",
        static_cast<double>(cache_->capacity()) / (1 << 30), static_cast<long long>(cache_->records_kept()));
    note_(text);
  }
  return bytes;
}

}  // namespace dtrain::data
