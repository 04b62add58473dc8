// Turns sentences and pairs into rows of tokens as transformers' fast tokenizers do, with the ids of the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/text/tokenizer.h"

namespace dtrain::data {

// In a row, the mark of a token of type 1, if the format has types. Ids are below it.
inline constexpr uint32_t kOfSecondText = uint32_t{1} << 31;

// Appends a row to `tokens`: <s> a </s>, or with a pair <s> a </s></s> b </s>, or as the format is otherwise. If it
// would have more than `most` tokens, `a` and `b` are cut at their ends, the longer one first (Hugging Face's
// longest_first). Returns whether it was cut. Throws Error (exit code 2) if `most` leaves no room for a token.
bool AppendSentenceRow(const RowFormat& format, std::span<const uint32_t> a, int64_t most,
                       std::vector<uint32_t>& tokens);
bool AppendPairRow(const RowFormat& format, std::span<const uint32_t> a, std::span<const uint32_t> b, int64_t most,
                   std::vector<uint32_t>& tokens);

class SentenceTokenizer {
 public:
  // Opens the tokenizer in a folder (FindTokenizer), for encoder.json with the dict.txt beside it, whose ids the model
  // has. Throws DataError if it is not there or cannot be used.
  explicit SentenceTokenizer(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const RowFormat& format() const { return format_; }
  int64_t vocabulary() const { return vocabulary_; }        // every token is below it
  std::string fingerprint() const { return fingerprint_; }  // a hash of the files

  // The tokenizer must outlive it.
  std::unique_ptr<TextEncoder> MakeEncoder() const {
    auto encoder = tokenizer_->MakeEncoder();
    encoder->Renumber(id_of_);
    return encoder;
  }

 private:
  void UseDictionary();

  const std::string folder_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  RowFormat format_;
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
