#include "data/text/token_row_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "data/error.h"
#include "data/text/dictionary.h"
#include "data/text/token_rows.h"

namespace dtrain::data {

std::vector<Field> TokenFields(int64_t length) {
  return {{.name = kInputIds, .type = ElementType::kInt64, .row_shape = {length}},
          {.name = kTokenLabels, .type = ElementType::kInt64, .row_shape = {length}},
          {.name = kAttentionMask, .type = ElementType::kUInt8, .row_shape = {length}}};
}

TokenRowDecoder::TokenRowDecoder(const TokenRowOptions& options) : options_(options), masking_(options.masking) {}

std::vector<Field> TokenRowDecoder::fields(int64_t size) const {
  return TokenFields(size > 0 ? size : options_.tokens_per_sample);
}

void TokenRowDecoder::Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
                             std::span<const std::span<std::byte>> rows) const {
  const size_t room = rows[2].size();
  std::span<int64_t> ids(reinterpret_cast<int64_t*>(rows[0].data()), room);
  std::span<int64_t> labels(reinterpret_cast<int64_t*>(rows[1].data()), room);
  const auto token_bytes = static_cast<size_t>(TokenBytes(options_.type));
  const size_t count = std::min(bytes.size() / token_bytes, room - 1);
  ids[0] = kBeginToken;
  WidenTokens(options_.type, bytes.first(count * token_bytes), ids.data() + 1);
  for (size_t i = 1; i <= count; ++i) {
    if (ids[i] >= 0 && ids[i] < options_.dictionary_size) continue;
    throw DataError("token " + std::to_string(i - 1) + " of the block is " + std::to_string(ids[i]) +
                        ", but the dictionary ends at " + std::to_string(options_.dictionary_size - 1),
                    "dict.txt belongs to other token files, or these are damaged");
  }
  const size_t length = count + 1;
  masking_.Mask(sample.epoch, sample.index, sample.repeat, ids.first(length), labels.first(length));
  std::ranges::fill(ids.subspan(length), int64_t{kPadToken});
  std::ranges::fill(labels.subspan(length), int64_t{kNoLoss});
  std::memset(rows[2].data(), 1, length);
  std::memset(rows[2].data() + length, 0, room - length);
}

}  // namespace dtrain::data
