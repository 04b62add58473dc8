// From a record's bytes to one row of a batch.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/record_kind.h"

namespace dtrain::data {

// One named tensor of a batch: its rows have this type and shape.
struct Field {
  std::string name;
  ElementType type;
  std::vector<int64_t> row_shape;
};

// One element of a batch, as the sampler chose it.
struct SampleRef {
  int64_t index = 0;   // position in the RecordSource
  int64_t epoch = 0;   // which pass over the data: keys the random draws
  int64_t repeat = 0;  // which of the copies that repeated augmentation makes of a sample: another draw each
  int64_t size = 0;    // pixels a side, or tokens, that the row is to have; 0: the decoder's own
  bool operator==(const SampleRef&) const = default;
};

// Decodes records of one format. Pure: the same bytes and the same SampleRef give the same rows, on any rank and
// thread.
class SampleDecoder {
 public:
  virtual ~SampleDecoder() = default;

  // The tensors this decoder fills for samples of this size (as SampleRef has it), besides `index` (int64, one element
  // a row), which the loader adds, as it does `labels` (likewise, from RecordSource::Label) where they are none of
  // these.
  virtual std::vector<Field> fields(int64_t size) const = 0;

  // Writes one row of each field (rows[i] belongs to fields(sample.size)[i]). Throws DataError on bytes that cannot be
  // decoded; rows may then be partly written. Safe to call from many threads at once.
  virtual void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
                      std::span<const std::span<std::byte>> rows) const = 0;

  // For a record that a device is to decode (deferred_rows.h): writes the row of each field but the one that the device
  // fills, as Decode would, and returns what the device's decoder must know for that. Empty: it is for Decode. Throws
  // what Decode would.
  virtual std::any Defer(std::span<const uint8_t> /*bytes*/, const SampleRef& /*sample*/,
                         std::span<const std::span<std::byte>> /*rows*/) const {
    return {};
  }
};

}  // namespace dtrain::data
