// The files of Hugging Face that describe a tokenizer: tokenizer.json, which holds it whole, and those beside the
// vocabulary that change it. Only byte-level BPE with <s> and </s> is read; what would give other tokens is refused.
#pragma once

#include <string>
#include <string_view>

#include "data/text/byte_level_bpe.h"

namespace dtrain::data {

// The two parts as ByteLevelBpe takes them: the contents of vocab.json and of merges.txt.
struct TokenizerParts {
  std::string vocabulary, merges;
  bool marks_sentences = true;  // whether it puts <s> and </s> around sentences and pairs: <s> a </s></s> b </s>
};

// Parses the content of a tokenizer.json. Throws DataError, which does not name the file, if it is not byte-level BPE,
// has a field that is not known (data/shallow_json.h), or finds tokens in texts other than by merging (added tokens,
// except <s>, <pad>, </s>, <unk> and <mask>, which never occur in texts here).
TokenizerParts ParseTokenizerJson(std::string_view text);

// Checks tokenizer_config.json, special_tokens_map.json and added_tokens.json, as far as they are in the folder, by the
// same rules. Throws DataError.
void RequireKnownSettings(const std::string& folder, const ByteLevelBpe& tokenizer);

}  // namespace dtrain::data
