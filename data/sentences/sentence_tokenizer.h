// Turns sentences and pairs into rows of tokens as transformers' fast tokenizers do, with the ids of the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_level_bpe.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

// Appends a row to `tokens`: <s> a </s>, or with a pair <s> a </s></s> b </s>. If it would have more than `most`
// tokens, `a` and `b` are cut at their ends, the longer one first (Hugging Face's longest_first). Returns whether it
// was cut. Throws Error (exit code 2) if `most` leaves no room for a token.
bool AppendSentenceRow(std::span<const uint32_t> a, int64_t most, std::vector<uint32_t>& tokens);
bool AppendPairRow(std::span<const uint32_t> a, std::span<const uint32_t> b, int64_t most,
                   std::vector<uint32_t>& tokens);

class SentenceTokenizer {
 public:
  // Opens the tokenizer in a folder (FindTokenizer), for encoder.json with the dict.txt beside it, whose ids the model
  // has. Throws DataError if it is not there or cannot be used.
  explicit SentenceTokenizer(const std::string& folder);

  const std::string& folder() const { return folder_; }
  int64_t vocabulary() const { return vocabulary_; }        // every token is below it
  std::string fingerprint() const { return fingerprint_; }  // a hash of the files

  // Encodes text. Not thread-safe: each thread needs its own. The tokenizer must outlive it.
  class Encoder {
   public:
    explicit Encoder(const SentenceTokenizer& tokenizer) : tokenizer_(tokenizer), bpe_(tokenizer.tokenizer_.bpe()) {}
    // Appends the tokens of a text, without special ones.
    void Encode(std::string_view text, std::vector<uint32_t>& tokens);

   private:
    const SentenceTokenizer& tokenizer_;
    BpeEncoder bpe_;
    std::vector<int32_t> ids_;
  };

 private:
  void UseDictionary();

  const std::string folder_;
  const Tokenizer tokenizer_;
  std::vector<uint32_t> id_of_;  // the model's id of each of the tokenizer's; empty if they are the same
  int64_t vocabulary_ = 0;
  std::string fingerprint_;
};

// Returns the folder of the first tokenizer in `paths`, as FindSentenceTokenizer finds it; empty if there is none.
std::optional<std::string> SentenceTokenizerFolder(const std::vector<std::string>& paths);

// Opens the first tokenizer found. A path is a folder, or a file in it (weights); its subfolder `tokenizer`, as run
// directories have it, is searched, too. Empty paths are skipped. Throws DataError, which says where it looked and for
// what.
std::unique_ptr<const SentenceTokenizer> FindSentenceTokenizer(const std::vector<std::string>& paths);

}  // namespace dtrain::data
