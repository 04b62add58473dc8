#include "data/text/token_tensor_decoder.h"

#include <cstring>
#include <string>

#include "data/error.h"
#include "data/text/dictionary.h"
#include "data/text/token_row_decoder.h"

namespace dtrain::data {
namespace {

void RequireBelow(int64_t vocabulary, std::span<const int64_t> values, bool are_labels) {
  for (size_t i = 0; i < values.size(); ++i) {
    if ((values[i] >= 0 && values[i] < vocabulary) || (are_labels && values[i] == kNoLoss)) continue;
    throw DataError((are_labels ? "label " : "token ") + std::to_string(i) + " is " + std::to_string(values[i]) +
                        ", but the vocabulary ends at " + std::to_string(vocabulary - 1),
                    "check --vocab_size, and that the dict.txt beside the data is theirs");
  }
}

}  // namespace

TokenTensorDecoder::TokenTensorDecoder(const TokenTensorFile::Layout& layout, const MaskingOptions& masking)
    : layout_(layout), vocabulary_(masking.vocabulary), masking_(masking) {}

std::vector<Field> TokenTensorDecoder::fields(int64_t /*size*/) const { return TokenFields(layout_.tokens); }

void TokenTensorDecoder::Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
                                std::span<const std::span<std::byte>> rows) const {
  const auto tokens = static_cast<size_t>(layout_.tokens);
  const size_t row_bytes = tokens * sizeof(int64_t);
  const auto tensors = static_cast<size_t>(1 + layout_.has_labels + layout_.has_mask);
  if (bytes.size() != tensors * row_bytes) throw DataError("a record of " + std::to_string(bytes.size()) + " bytes");
  const std::span<int64_t> ids(reinterpret_cast<int64_t*>(rows[0].data()), tokens);
  const std::span<int64_t> labels(reinterpret_cast<int64_t*>(rows[1].data()), tokens);
  std::memcpy(ids.data(), bytes.data(), row_bytes);
  RequireBelow(vocabulary_, ids, false);
  std::vector<int64_t> mask(ids.begin(), ids.end());
  if (layout_.has_mask) {
    std::memcpy(mask.data(), bytes.data() + (tensors - 1) * row_bytes, row_bytes);
  } else {
    for (int64_t& token : mask) token = token != kPadToken ? 1 : 0;
  }
  for (size_t i = 0; i < tokens; ++i) {
    if (mask[i] != 0 && mask[i] != 1) throw DataError("attention_mask has " + std::to_string(mask[i]) + ", not 0 or 1");
    rows[2][i] = static_cast<std::byte>(mask[i]);
  }
  if (!layout_.has_labels) return MaskReal(sample, rows[2], ids, labels);
  std::memcpy(labels.data(), bytes.data() + row_bytes, row_bytes);
  RequireBelow(vocabulary_, labels, true);
  for (size_t i = 0; i < tokens; ++i) {
    if (mask[i] == 0) labels[i] = kNoLoss;
  }
}

// Masks the tokens as if padding, which may be anywhere in the row, did not exist.
void TokenTensorDecoder::MaskReal(const SampleRef& sample, std::span<const std::byte> is_real, std::span<int64_t> ids,
                                  std::span<int64_t> labels) const {
  std::vector<size_t> places;
  std::vector<int64_t> real;
  for (size_t i = 0; i < ids.size(); ++i) {
    labels[i] = kNoLoss;
    if (is_real[i] == std::byte{0}) continue;
    places.push_back(i);
    real.push_back(ids[i]);
  }
  std::vector<int64_t> real_labels(real.size());
  masking_.Mask(sample.epoch, sample.index, sample.repeat, real, real_labels);
  for (size_t i = 0; i < places.size(); ++i) {
    ids[places[i]] = real[i];
    labels[places[i]] = real_labels[i];
  }
}

}  // namespace dtrain::data
