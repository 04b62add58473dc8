#include "data/text/byte_level_bpe.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/error.h"
#include "data/text/tokenizer_json.h"

namespace dtrain::data {
namespace {

// Returns a byte as a vocabulary writes it: a printable byte as the character with that number, the others, in order,
// as the characters from U+0100 on (OpenAI's bytes_to_unicode).
std::string WrittenByte(int byte) {
  const auto printable = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
  int code_point = byte;
  if (!printable(byte)) {
    code_point = 0x100;
    for (int other = 0; other < byte; ++other) code_point += printable(other) ? 0 : 1;
  }
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

uint64_t PairOf(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(std::string_view vocabulary_json, std::string_view merges) {
  ReadVocabulary(vocabulary_json);
  for (int byte = 0; byte < 256; ++byte) {
    const int64_t id = IdOf(WrittenByte(byte));
    const bool is_in_no_text = byte == 0xC0 || byte == 0xC1 || byte >= 0xF5;  // no UTF-8 has it: GPT-NeoX's lacks these
    if (id < 0 && is_in_no_text) continue;
    if (id < 0) {
      char text[8];
      std::snprintf(text, sizeof text, "0x%02X", static_cast<unsigned>(byte));
      throw DataError(
          "the vocabulary has no token for the byte " + std::string(text),
          "a byte-level tokenizer has one for each byte of a text: this file is of another kind, or damaged");
    }
    byte_tokens_[byte] = static_cast<int32_t>(id);
  }
  ReadMerges(merges);
}

void ByteLevelBpe::ReadVocabulary(std::string_view json) {
  tokens_ = TokensById(nlohmann::json::parse(json, nullptr, false));
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty()) ids_.emplace(tokens_[id], static_cast<int32_t>(id));
  }
}

void ByteLevelBpe::ReadMerges(std::string_view text) {
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  merges_.resize(std::bit_ceil(2 * lines));
  uint32_t rank = 0;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || line.empty()) continue;
    const size_t space = line.find(' ');
    try {
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
        throw DataError("expected two tokens with a space between them", "this is not a vocab.bpe or merges.txt");
      }
      AddMerge(line.substr(0, space), line.substr(space + 1), rank++);
    } catch (const DataError& error) {
      throw DataError("the merges' line " + std::to_string(number) + ": " + error.what(), error.hint());
    }
  }
}

void ByteLevelBpe::AddMerge(std::string_view left, std::string_view right, uint32_t rank) {
  const std::string both = std::string(left) + std::string(right);
  const int64_t left_id = IdOf(left), right_id = IdOf(right), merged = IdOf(both);
  if (left_id < 0 || right_id < 0 || merged < 0) {
    throw DataError(std::string(left_id < 0    ? "its first word"
                                : right_id < 0 ? "its second word"
                                               : "the token that they form") +
                        " is not in the vocabulary",
                    "the two files belong to different tokenizers, or one is damaged");
  }
  const uint64_t pair = PairOf(static_cast<int32_t>(left_id), static_cast<int32_t>(right_id));
  merges_[PlaceOf(pair)] = {pair, rank, static_cast<int32_t>(merged)};  // if a pair occurs twice, the last one counts
}

int64_t ByteLevelBpe::IdOf(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

bool ByteLevelBpe::BeginsWord(std::string_view token) {
  static const std::string space = WrittenByte(' ');
  return token.starts_with(space);
}

const ByteLevelBpe::Merge& ByteLevelBpe::Find(int32_t left, int32_t right) const {
  return merges_[PlaceOf(PairOf(left, right))];
}

size_t ByteLevelBpe::PlaceOf(uint64_t pair) const {
  const size_t last = merges_.size() - 1;
  size_t place = (pair * 0x9E3779B97F4A7C15 >> 32) & last;
  while (merges_[place].rank != kNoMerge && merges_[place].pair != pair) place = (place + 1) & last;
  return place;
}

}  // namespace dtrain::data
