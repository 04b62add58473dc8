// The files of Hugging Face that describe a tokenizer: tokenizer.json, which holds it whole, and those beside the
// vocabulary that change it. What would give other tokens than there is refused by the name of the part.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/error.h"
#include "data/text/byte_level_bpe.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

// The two parts as ByteLevelBpe takes them: the contents of vocab.json and of merges.txt.
struct TokenizerParts {
  std::string vocabulary, merges;
};

// Returns what `make` returns. A DataError that it throws gets the file's name in front, unless it names a file of the
// same folder.
template <typename Make>
auto NamingFile(const std::string& path, const Make& make) {
  try {
    return make();
  } catch (const DataError& error) {
    const std::string what = error.what(), folder = path.substr(0, path.rfind('/') + 1);
    if (!folder.empty() && what.starts_with(folder)) throw;
    throw DataError(path + ": " + what, error.hint());
  }
}

// Parses the content of a tokenizer.json: byte-level BPE, WordPiece or Unigram. `folder` is searched for the files that
// change it; without it there are none. Throws DataError, which does not name the file, for other parts, and for fields
// that are not known (data/shallow_json.h). A byte-level BPE with the token <s> is RoBERTa's: it must have fairseq's
// special tokens and no other added ones, and these never occur in texts.
std::unique_ptr<const Tokenizer> ParseTokenizerJson(std::string_view text, const std::string& folder = "");

// Parses the content of BERT's vocab.txt, which has a token in each line, as above.
std::unique_ptr<const Tokenizer> ParseVocabTxt(std::string_view text, const std::string& folder = "");

// The openers of the table of kinds.
std::unique_ptr<const Tokenizer> OpenTokenizerJson(const std::vector<std::string>& paths);
std::unique_ptr<const Tokenizer> OpenVocabTxt(const std::vector<std::string>& paths);

// Returns the parts of a tokenizer with a dictionary: the contents of its two files, or those in tokenizer.json. Throws
// DataError.
TokenizerParts PartsOf(const TokenizerFiles& files);

// Check tokenizer_config.json, special_tokens_map.json and added_tokens.json in a folder, as far as they are there.
// Throw DataError for what would give other tokens. The first returns their add_prefix_space, if they have it.
std::optional<bool> RobertaSettings(const std::string& folder, const ByteLevelBpe& tokenizer);
void RequireSentencePieceSettings(const std::string& folder, const Tokenizer& tokenizer);

}  // namespace dtrain::data
