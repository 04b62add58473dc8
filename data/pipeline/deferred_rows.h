// Rows of a batch that are read but not decoded, because a device will decode them. Only the decoder that deferred them
// and the device's decoder know the type of the work; the pipeline between them passes it on as std::any.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <vector>

namespace dtrain::data {

struct DeferredRow {
  int64_t row = 0;
  std::vector<uint8_t> bytes;  // of the record
  std::any work;               // as returned by SampleDecoder::Defer
};

struct DeferredRows {
  std::vector<DeferredRow> rows;  // ascending
  // Decodes a row on the CPU into the batch's tensors. A bad record is noted and replaced as if it had not been
  // deferred, including its index and labels. The loader must outlive this function. Throws DataError as the loader
  // does.
  std::function<void(DeferredRow)> decode_here;
};

}  // namespace dtrain::data
