// Hugging Face's tokenizer.json: a tokenizer in one file. Only those that tokenize as RoBERTa's are read; whatever
// would give other tokens is refused rather than ignored.
#pragma once

#include <string>
#include <string_view>

namespace dtrain::data {

// The two parts as ByteLevelBpe takes them: the contents of vocab.json and of merges.txt.
struct TokenizerParts {
  std::string vocabulary, merges;
};

// Parses the content of a file. Throws DataError, which does not name the file, if it is not byte-level BPE, changes
// texts before it (a normalizer, add_prefix_space), or finds tokens in texts other than by merging (added tokens,
// except <s>, <pad>, </s>, <unk> and <mask>, which never occur in texts here).
TokenizerParts ParseTokenizerJson(std::string_view text);

}  // namespace dtrain::data
