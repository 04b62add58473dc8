#include "data/text/token_rows.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "data/error.h"

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

// Returns the three fields for rows of `length` tokens.
std::vector<Field> TokenFields(int64_t length) {
  return {{.name = kInputIds, .type = ElementType::kInt64, .row_shape = {length}},
          {.name = kTokenLabels, .type = ElementType::kInt64, .row_shape = {length}},
          {.name = kAttentionMask, .type = ElementType::kUInt8, .row_shape = {length}}};
}

class TokenRowDecoder : public SampleDecoder {
 public:
  explicit TokenRowDecoder(const TokenRowOptions& options) : options_(options), masking_(options.masking) {}

  std::vector<Field> fields(int64_t size) const override {
    return TokenFields(size > 0 ? size : options_.tokens_per_sample);
  }

  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override {
    const size_t room = rows[2].size();
    std::span<int64_t> ids(reinterpret_cast<int64_t*>(rows[0].data()), room);
    std::span<int64_t> labels(reinterpret_cast<int64_t*>(rows[1].data()), room);
    const auto token_bytes = static_cast<size_t>(TokenBytes(options_.type));
    const size_t front = options_.adds_begin ? 1 : 0;
    const size_t count = std::min(bytes.size() / token_bytes, room - front), length = front + count;
    if (options_.adds_begin) ids[0] = options_.masking.special.begin;
    WidenTokens(options_.type, bytes.first(count * token_bytes), ids.data() + front);
    for (size_t i = front; i < length; ++i) {
      if (ids[i] >= 0 && ids[i] < options_.dictionary_size) continue;
      throw DataError("token " + std::to_string(i - front) + " of the block is " + std::to_string(ids[i]) +
                          ", but the dictionary ends at " + std::to_string(options_.dictionary_size - 1),
                      "the dict.txt or the tokenizer beside them belongs to other token files, or these are damaged");
    }
    masking_.Mask(sample.epoch, sample.index, sample.repeat, ids.first(length), labels.first(length));
    std::ranges::fill(ids.subspan(length), options_.masking.special.pad);
    std::ranges::fill(labels.subspan(length), int64_t{kNoLoss});
    std::memset(rows[2].data(), 1, length);
    std::memset(rows[2].data() + length, 0, room - length);
  }

 private:
  const TokenRowOptions options_;
  const Masking masking_;
};

class TokenTensorDecoder : public SampleDecoder {
 public:
  TokenTensorDecoder(const TokenTensorFile::Layout& layout, const MaskingOptions& masking)
      : layout_(layout), vocabulary_(masking.vocabulary), pad_(masking.special.pad), masking_(masking) {}

  std::vector<Field> fields(int64_t /*size*/) const override { return TokenFields(layout_.tokens); }

  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override {
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
      for (int64_t& token : mask) token = token != pad_ ? 1 : 0;
    }
    for (size_t i = 0; i < tokens; ++i) {
      if (mask[i] != 0 && mask[i] != 1)
        throw DataError("attention_mask has " + std::to_string(mask[i]) + ", not 0 or 1");
      rows[2][i] = static_cast<std::byte>(mask[i]);
    }
    if (!layout_.has_labels) return MaskReal(sample, rows[2], ids, labels);
    std::memcpy(labels.data(), bytes.data() + row_bytes, row_bytes);
    RequireBelow(vocabulary_, labels, true);
    for (size_t i = 0; i < tokens; ++i) {
      if (mask[i] == 0) labels[i] = kNoLoss;
    }
  }

 private:
  // Masks the tokens as if padding, which may be anywhere in the row, did not exist.
  void MaskReal(const SampleRef& sample, std::span<const std::byte> is_real, std::span<int64_t> ids,
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

  const TokenTensorFile::Layout layout_;
  const int64_t vocabulary_, pad_;
  const Masking masking_;
};

}  // namespace

std::unique_ptr<SampleDecoder> MakeTokenRowDecoder(const TokenRowOptions& options) {
  return std::make_unique<TokenRowDecoder>(options);
}

std::unique_ptr<SampleDecoder> MakeTokenTensorDecoder(const TokenTensorFile::Layout& layout,
                                                      const MaskingOptions& masking) {
  return std::make_unique<TokenTensorDecoder>(layout, masking);
}

}  // namespace dtrain::data
