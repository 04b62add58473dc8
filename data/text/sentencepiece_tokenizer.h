// The tokenizer of XLM-R and CamemBERT: the sentencepiece library with the file sentencepiece.bpe.model, whose ids
// fairseq has moved behind its own special tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/added_tokens.h"
#include "data/text/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace dtrain::data {

inline constexpr char kSentencePieceFile[] = "sentencepiece.bpe.model";

class SentencePieceTokenizer : public Tokenizer {
 public:
  enum class Ids {
    kXlmRoberta,  // <s> <pad> </s> <unk>, the pieces from number 3 on, <mask>
    kCamembert,   // <s>NOTUSED <pad> </s>NOTUSED <unk>, all pieces, of which the first is <unk>NOTUSED, <mask>
  };

  // Takes the content of the file. Throws DataError if it is not a whole model.
  SentencePieceTokenizer(std::string_view model, Ids ids);
  ~SentencePieceTokenizer() override;

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return tokens_; }
  int64_t IdOf(std::string_view token) const override;
  bool BeginsWord(int64_t id) const override;

 private:
  class Encoder;

  SentencePieceTokenizer(Ids ids, std::unique_ptr<sentencepiece::SentencePieceProcessor> processor);

  const int32_t offset_;  // of ids to numbers of pieces
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys point into tokens_
  AddedTokens added_;
};

// The opener of the table of kinds. It is CamemBERT's if tokenizer_config.json, or the config.json of a model in the
// same folder, says so, and else XLM-R's.
std::unique_ptr<const Tokenizer> OpenSentencePiece(const std::vector<std::string>& paths);

}  // namespace dtrain::data
