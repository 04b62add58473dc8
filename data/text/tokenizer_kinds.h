// Makes the tokenizers of each kind, and opens their files for the table of kinds (tokenizer.cc).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/added_tokens.h"
#include "data/text/byte_level_bpe.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

// How a text is prepared for the merges of byte-level BPE.
struct BpePreparation {
  bool adds_space = false;  // whether a text gets a space in front, unless it has one (add_prefix_space)
  bool composes = false;    // whether characters are composed (Unicode's NFC)
  bool trims_spans = true;  // whether spans of characters leave out a space in front
  std::vector<AddedToken> added = {}, composed_added = {};  // looked for in the text as it is, and in the composed one
};

// Byte-level BPE of RoBERTa, whose ids are fairseq's. Throws DataError if the special tokens do not have fairseq's ids
// (<s> 0, <pad> 1, </s> 2, <unk> 3) or there is no <mask>. The ids of <mask> differ: it is the last token of published
// models, and often the fifth of tokenizers that users train. `other_rows` as in Tokenizer.
std::unique_ptr<const Tokenizer> MakeRobertaBpe(ByteLevelBpe bpe, bool adds_space, const std::string& other_rows);

// Byte-level BPE of newer models such as ModernBERT, with special tokens of their own.
std::unique_ptr<const Tokenizer> MakeBpe(ByteLevelBpe bpe, const RowFormat& format, BpePreparation preparation,
                                         std::string other_rows);

// encoder.json and vocab.bpe: GPT-2's byte-level BPE, whose tokens a dictionary renumbers.
std::unique_ptr<const Tokenizer> OpenGpt2(const std::vector<std::string>& paths);

// vocab.json and merges.txt.
std::unique_ptr<const Tokenizer> OpenRobertaBpe(const std::vector<std::string>& paths);

struct WordPieceOptions {
  std::vector<std::string> tokens;  // by id; pieces that continue a word begin with ##
  std::string unknown = "[UNK]";    // a token; a word that cannot be cut becomes this
  size_t most_characters = 100;     // longer words do, too
  // Whether control characters are removed, Chinese characters are words of their own, accents are removed, and letters
  // become lower-case ones.
  bool cleans = true, parts_chinese = true, strips_accents = true, lowers = true;
  std::vector<AddedToken> added = {};             // looked for in the text as it is
  std::vector<AddedToken> normalised_added = {};  // and after it has been cleaned as above
  RowFormat format = {};
  std::string other_rows = {};  // as in Tokenizer
};

// BERT's tokenizer (Devlin et al. 2018). A text is cleaned, cut into words at white space, around punctuation and
// around Chinese characters, and each word is cut into the longest pieces that the vocabulary has, from left to right.
// The ids are those of Hugging Face's `tokenizers`, except for characters that are newer than the tables of Unicode
// that either has. Throws DataError if `unknown` is not a token.
std::unique_ptr<const Tokenizer> MakeWordPiece(WordPieceOptions options);

// The tokenizers of XLM-R and CamemBERT: the sentencepiece library, whose ids fairseq has moved behind its own special
// tokens.
enum class SentencePieceIds {
  kXlmRoberta,  // <s> <pad> </s> <unk>, the pieces from number 3 on, <mask>
  kCamembert,   // <s>NOTUSED <pad> </s>NOTUSED <unk>, all pieces, of which the first is <unk>NOTUSED, <mask>
};

inline constexpr char kSentencePieceFile[] = "sentencepiece.bpe.model";

// Takes the content of the file. Throws DataError if it is not a whole model.
std::unique_ptr<const Tokenizer> MakeSentencePiece(std::string_view model, SentencePieceIds ids);

// It is CamemBERT's if tokenizer_config.json, or the config.json of a model in the same folder, says so, and else
// XLM-R's.
std::unique_ptr<const Tokenizer> OpenSentencePiece(const std::vector<std::string>& paths);

}  // namespace dtrain::data
