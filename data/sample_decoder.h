// Decodes the bytes of a record into one row of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

// One tensor of a batch. Every row has this type and shape.
struct Field {
  std::string name;
  ElementType type;
  std::vector<int64_t> row_shape;
  bool on_host = false;  // for messages and files alone: never copied to a device
};

// One sample of a batch, as chosen by the sampler.
struct SampleRef {
  int64_t index = 0;   // position in the RecordSource
  int64_t epoch = 0;   // number of passes over the data before this one; part of the key of random draws
  int64_t repeat = 0;  // number of the copy under repeated augmentation; each copy has its own random draws
  int64_t size = 0;    // pixels per side, or tokens, of the row; 0: the decoder's own size
  bool operator==(const SampleRef&) const = default;
};

// Decodes records of one format. Decoders are pure: the same bytes and the same SampleRef give the same rows on any
// rank and thread.
class SampleDecoder {
 public:
  virtual ~SampleDecoder() = default;

  // Returns the tensors that this decoder fills for samples of `size` (SampleRef::size). The loader adds `index`
  // (int64, one element per row), and `labels` (likewise, from RecordSource::Label) unless the decoder fills it.
  virtual std::vector<Field> fields(int64_t size) const = 0;

  // Writes one row of each field; rows[i] belongs to fields(sample.size)[i]. Throws DataError if the bytes cannot be
  // decoded; rows may then be partly written. Safe to call from many threads at once.
  virtual void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
                      std::span<const std::span<std::byte>> rows) const = 0;
};

}  // namespace dtrain::data
