// Rows of a batch that are read and not decoded: a device finishes them. What has to be done is known to the decoder
// that deferred them and to the device's; the pipeline between hands it on unseen.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <vector>

namespace dtrain::data {

struct DeferredRow {
  int64_t row = 0;
  std::vector<uint8_t> bytes;  // the record's
  std::any work;               // what SampleDecoder::Defer returned
};

struct DeferredRows {
  std::vector<DeferredRow> rows;  // ascending
  // Decodes a row on the CPU after all, into the batch's tensors; a bad record is noted and replaced, as it would have
  // been at once: index, labels and all. The loader outlives this. Throws DataError as the loader does.
  std::function<void(DeferredRow)> decode_here;
};

}  // namespace dtrain::data
