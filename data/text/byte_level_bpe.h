// GPT-2's tokenizer: byte-level byte-pair encoding (Radford et al. 2019). Text is cut into pieces.
// Within a piece, the neighbouring pair that was learned first is merged, the leftmost such pair first, until no pair
// can be merged. The ids are those of Hugging Face's `tokenizers` and OpenAI's encoder. Text never becomes special
// tokens such as <|endoftext|>.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dtrain::data {

class ByteLevelBpe {
 public:
  // Takes the contents of encoder.json (or vocab.json) and of vocab.bpe (or merges.txt). Throws DataError if one cannot
  // be parsed, a byte has no token, or a merge makes something that is not a token. The error says which of the two is
  // wrong, but names no file.
  ByteLevelBpe(std::string_view vocabulary_json, std::string_view merges);
  ByteLevelBpe(ByteLevelBpe&&) = default;
  ByteLevelBpe& operator=(ByteLevelBpe&&) = default;  // move only: ids_ points into tokens_

  // The tokens by id, as the vocabulary writes them: one character per byte, printable bytes as themselves. Empty if no
  // token has this id.
  const std::vector<std::string>& tokens() const { return tokens_; }
  // Returns the id of a token in this notation; -1 if there is none.
  int64_t IdOf(std::string_view token) const;

  // Whether a token in this notation begins with a space, hence begins a word.
  static bool BeginsWord(std::string_view token);

 private:
  friend class BpeEncoder;
  // A pair and the token it becomes, in a hash table with open addressing. The rank is kNoMerge in an empty place.
  struct Merge {
    uint64_t pair = 0;
    uint32_t rank = kNoMerge;
    int32_t merged = 0;
  };
  static constexpr uint32_t kNoMerge = UINT32_MAX;

  void ReadVocabulary(std::string_view json);
  void ReadMerges(std::string_view text);
  void AddMerge(std::string_view left, std::string_view right, uint32_t rank);
  const Merge& Find(int32_t left, int32_t right) const;
  size_t PlaceOf(uint64_t pair) const;  // that of the pair, or the empty one for it

  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys point into tokens_
  int32_t byte_tokens_[256] = {};
  std::vector<Merge> merges_;  // size is a power of two
};

// Encodes text and caches the words it has seen. Not thread-safe: each thread needs its own.
class BpeEncoder {
 public:
  explicit BpeEncoder(const ByteLevelBpe& bpe);  // `bpe` must outlive the encoder
  ~BpeEncoder();
  BpeEncoder(BpeEncoder&&) noexcept;

  // Appends the ids of a text, which must be valid UTF-8.
  void Encode(std::string_view text, std::vector<uint32_t>& ids);

 private:
  struct Known;
  void EncodePiece(std::string_view piece, std::vector<uint32_t>& ids);
  void MergeShort(std::string_view piece, std::vector<uint32_t>& ids) const;
  void MergeLong(std::string_view piece, std::vector<uint32_t>& ids) const;

  const ByteLevelBpe& bpe_;
  std::unique_ptr<Known[]> known_;
};

}  // namespace dtrain::data
