// GPT-2's tokenizer: byte-level byte-pair encoding (Radford et al. 2019). Text is cut into pieces (pre_tokenizer.h),
// and within a piece the pair of neighbouring tokens that was learned first is merged, the leftmost of them first,
// until none is left. The ids are those of Hugging Face's `tokenizers` and OpenAI's encoder. Special tokens such as
// <|endoftext|> are never made from text.
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
  // The contents of encoder.json (or vocab.json) and of vocab.bpe (or merges.txt). Throws DataError where one cannot be
  // parsed, a byte has no token, or a merge makes what is no token; it names neither file, but says which of the two.
  ByteLevelBpe(std::string_view vocabulary_json, std::string_view merges);
  ByteLevelBpe(ByteLevelBpe&&) = default;
  ByteLevelBpe& operator=(ByteLevelBpe&&) = default;  // no copies: ids_ looks into tokens_

  // The same from files, and the error names the file.
  static ByteLevelBpe Load(const std::string& vocabulary_json, const std::string& merges);

  // Tokens by id, as the vocabulary writes them: a byte a character, printable ones as they are. An empty one: no token
  // has this id.
  const std::vector<std::string>& tokens() const { return tokens_; }
  int64_t vocabulary() const { return static_cast<int64_t>(tokens_.size()); }
  // The id of a token that is written so; -1: there is none.
  int64_t IdOf(std::string_view token) const;

  // Whether a token that is written so begins with a space, hence a word.
  static bool BeginsWord(std::string_view token);

 private:
  friend class BpeEncoder;
  // What a pair becomes, in a table with open addressing. Rank kNoMerge: an empty place.
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

  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // of tokens_
  int32_t byte_tokens_[256] = {};
  std::vector<Merge> merges_;  // a power of two
};

// Encodes text with a memory of the words it has met. One for each thread.
class BpeEncoder {
 public:
  explicit BpeEncoder(const ByteLevelBpe& bpe);  // which outlives it
  ~BpeEncoder();
  BpeEncoder(BpeEncoder&&) noexcept;

  // Appends the ids of a text; what is no UTF-8 in it is replaced (ReplaceInvalidUtf8), and counted.
  void Encode(std::string_view text, std::vector<int32_t>& ids);
  int64_t replaced() const { return replaced_; }

 private:
  struct Known;
  void EncodePiece(std::string_view piece, std::vector<int32_t>& ids);
  void MergeShort(std::string_view piece, std::vector<int32_t>& ids) const;
  void MergeLong(std::string_view piece, std::vector<int32_t>& ids) const;

  const ByteLevelBpe& bpe_;
  std::unique_ptr<Known[]> known_;
  int64_t replaced_ = 0;
};

}  // namespace dtrain::data
