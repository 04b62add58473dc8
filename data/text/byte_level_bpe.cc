#include "data/text/byte_level_bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <queue>

#include "data/error.h"
#include "data/text/tokenizer_json.h"
#include "data/text/utf8.h"

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
  std::string written;
  AppendUtf8(static_cast<uint32_t>(code_point), written);
  return written;
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
  const auto ends = std::ranges::count_if(text, [](char c) { return c == '\n' || c == '\r'; });  // as TakeLine cuts
  merges_.resize(std::bit_ceil(2 * (static_cast<size_t>(ends) + 1)));
  uint32_t rank = 0;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = TakeLine(text);
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

// ---- Encoding, which has to be fast -------------------------------------------------------------------------------
//
// A text is cut into pieces before pairs are merged, and no token crosses a cut (GPT-2's pre-tokenisation). Most words
// of a text occurred before: their ids are cached in a table, where a new word replaces an older one in its place.
// Other short pieces are merged by searching all pairs again after each merge, long ones with a heap, so that no text
// takes quadratic time.

namespace {

constexpr size_t kMostKnownBytes = 30, kMostKnownIds = 8;
constexpr size_t kKnownWords = 1 << 15;  // 2 MiB
constexpr size_t kShortBytes = 64;

using Key = std::array<uint64_t, 4>;

// Returns a piece of 1 to 30 bytes, padded with zeros to 32, with its length in the last byte.
Key KeyOf(std::string_view piece) {
  Key key{};
  char* const bytes = reinterpret_cast<char*>(key.data());
  const char* const from = piece.data();
  const size_t size = piece.size();
  // Two overlapping copies of a fixed size: a memcpy of variable size would take longer than the rest of this function.
  const auto copy = [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
    std::memcpy(bytes, from, kBytes);
    std::memcpy(bytes + size - kBytes, from + size - kBytes, kBytes);
  };
  if (size >= 16) {
    copy(std::integral_constant<size_t, 16>());
  } else if (size >= 8) {
    copy(std::integral_constant<size_t, 8>());
  } else if (size >= 4) {
    copy(std::integral_constant<size_t, 4>());
  } else {
    bytes[0] = from[0];
    bytes[size / 2] = from[size / 2];
    bytes[size - 1] = from[size - 1];
  }
  bytes[31] = static_cast<char>(size);
  return key;
}

size_t PlaceOf(const Key& key) {
  constexpr std::array<uint64_t, 4> kFactors = {0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                                                0xD6E8FEB86659FD93};
  uint64_t hash = 0;
  for (size_t i = 0; i < key.size(); ++i) hash += (key[i] ^ key[i] >> 29) * kFactors[i];
  return (hash ^ hash >> 32) * kFactors[0] >> 49;
}
static_assert(uint64_t{1} << (64 - 49) == kKnownWords);

// Cuts off the piece at the front of a text. The cuts are those of this regular expression, found without an engine:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
class Cutter {
 public:
  explicit Cutter(std::string_view text) : begin_(text.data()), end_(text.data() + text.size()) {}

  size_t PieceBytes() const {
    if (const size_t contraction = Contraction(); contraction > 0) return contraction;
    const CharacterClass first = ClassAt(begin_);
    if (first != CharacterClass::kSpace) return static_cast<size_t>(RunEnd(begin_, first) - begin_);
    const char* const second = begin_ + CharacterBytes(*begin_);
    if (*begin_ == ' ' && second < end_ && ClassAt(second) != CharacterClass::kSpace) {
      return static_cast<size_t>(RunEnd(second, ClassAt(second)) - begin_);
    }
    return Spaces();
  }

 private:
  CharacterClass ClassAt(const char* at) const { return classes_[CodePointAt(at)]; }

  const char* RunEnd(const char* at, CharacterClass kind) const {
    while (at < end_ && ClassAt(at) == kind) at += CharacterBytes(*at);
    return at;
  }

  size_t Contraction() const {
    if (*begin_ != '\'' || end_ - begin_ < 2) return 0;
    const char second = begin_[1];
    if (second == 's' || second == 't' || second == 'm' || second == 'd') return 2;
    if (end_ - begin_ < 3) return 0;
    const char third = begin_[2];
    const bool is_one =
        (second == 'r' && third == 'e') || (second == 'v' && third == 'e') || (second == 'l' && third == 'l');
    return is_one ? 3 : 0;
  }

  // A run of white space leaves its last character to the next piece, unless it has only one or ends the text.
  size_t Spaces() const {
    const char* last = begin_;
    const char* at = begin_;
    while (at < end_ && ClassAt(at) == CharacterClass::kSpace) {
      last = at;
      at += CharacterBytes(*at);
    }
    const char* const cut = at == end_ || last == begin_ ? at : last;
    return static_cast<size_t>(cut - begin_);
  }

  const char *const begin_, *const end_;
  const CharacterClass* const classes_ = CharacterClasses().data();
};

// Removes the first piece from `text`, which is not empty, and returns it. Takes time linear in the piece.
std::string_view TakePiece(std::string_view& text) {
  const std::string_view piece = text.substr(0, Cutter(text).PieceBytes());
  text.remove_prefix(piece.size());
  return piece;
}

}  // namespace

// A cached word, in one cache line.
struct alignas(64) BpeEncoder::Known {
  Key key{};  // zeros if the place is empty
  // Ids are below 2^24: the highest byte of the first one holds the number of ids.
  std::array<uint32_t, kMostKnownIds> ids{};
};

BpeEncoder::BpeEncoder(const ByteLevelBpe& bpe) : bpe_(bpe), known_(std::make_unique<Known[]>(kKnownWords)) {}
BpeEncoder::~BpeEncoder() = default;
BpeEncoder::BpeEncoder(BpeEncoder&&) noexcept = default;

void BpeEncoder::Encode(std::string_view text, std::vector<uint32_t>& ids) {
  while (!text.empty()) EncodePiece(TakePiece(text), ids);
}

void BpeEncoder::EncodePiece(std::string_view piece, std::vector<uint32_t>& ids) {
  if (piece.size() > kMostKnownBytes)
    return piece.size() > kShortBytes ? MergeLong(piece, ids) : MergeShort(piece, ids);
  constexpr int kCountShift = 24;
  constexpr uint32_t kIdBits = (1 << kCountShift) - 1;
  const Key key = KeyOf(piece);
  Known& known = known_[PlaceOf(key)];
  if (known.key == key) {
    const uint32_t first = known.ids[0], count = first >> kCountShift;
    ids.push_back(first & kIdBits);
    if (count > 1) ids.insert(ids.end(), known.ids.begin() + 1, known.ids.begin() + count);
    return;
  }
  const size_t before = ids.size();
  MergeShort(piece, ids);
  const size_t count = ids.size() - before;
  if (count > kMostKnownIds) return;
  known.key = key;
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), known.ids.begin());
  known.ids[0] |= static_cast<uint32_t>(count) << kCountShift;
}

void BpeEncoder::MergeShort(std::string_view piece, std::vector<uint32_t>& ids) const {
  std::array<int32_t, kShortBytes> tokens;
  std::array<const ByteLevelBpe::Merge*, kShortBytes> merges;  // of each token with the next
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) tokens[i] = bpe_.byte_tokens_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = &bpe_.Find(tokens[i], tokens[i + 1]);
  while (count > 1) {
    const auto pairs_end = merges.begin() + static_cast<std::ptrdiff_t>(count - 1);
    const auto best = std::ranges::min_element(merges.begin(), pairs_end, {}, &ByteLevelBpe::Merge::rank);
    if ((*best)->rank == ByteLevelBpe::kNoMerge) break;
    const auto at = static_cast<size_t>(best - merges.begin());
    tokens[at] = (*best)->merged;
    std::copy(tokens.begin() + at + 2, tokens.begin() + count, tokens.begin() + at + 1);
    if (at + 2 < count) std::copy(best + 2, pairs_end, best + 1);
    --count;
    if (at > 0) merges[at - 1] = &bpe_.Find(tokens[at - 1], tokens[at]);
    if (at + 1 < count) merges[at] = &bpe_.Find(tokens[at], tokens[at + 1]);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
}

void BpeEncoder::MergeLong(std::string_view piece, std::vector<uint32_t>& ids) const {
  // A doubly linked list of tokens. A merge removes the second of its two tokens.
  struct Token {
    int32_t id;
    size_t previous, next;
  };
  struct Candidate {
    uint32_t rank;
    size_t at;  // position of the left token
    int32_t left, right, merged;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  constexpr size_t kNone = SIZE_MAX;
  constexpr int32_t kTakenOut = -1;
  std::vector<Token> tokens(piece.size());
  for (size_t i = 0; i < piece.size(); ++i) {
    tokens[i] = {bpe_.byte_tokens_[static_cast<uint8_t>(piece[i])], i > 0 ? i - 1 : kNone,
                 i + 1 < piece.size() ? i + 1 : kNone};
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto add = [&](size_t at) {
    if (at == kNone || tokens[at].next == kNone) return;
    const int32_t left = tokens[at].id, right = tokens[tokens[at].next].id;
    const ByteLevelBpe::Merge& merge = bpe_.Find(left, right);
    if (merge.rank != ByteLevelBpe::kNoMerge) candidates.push({merge.rank, at, left, right, merge.merged});
  };
  for (size_t i = 0; i + 1 < tokens.size(); ++i) add(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Token& first = tokens[best.at];
    if (first.id != best.left || first.next == kNone || tokens[first.next].id != best.right) continue;
    first.id = best.merged;
    tokens[first.next].id = kTakenOut;
    first.next = tokens[first.next].next;
    if (first.next != kNone) tokens[first.next].previous = best.at;
    add(first.previous);
    add(best.at);
  }
  for (size_t at = 0; at != kNone; at = tokens[at].next) ids.push_back(tokens[at].id);
}

}  // namespace dtrain::data
