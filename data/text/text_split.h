// A split of text, ready for the loader: its samples, the decoder that turns them into rows (token_rows.h), and their
// lengths, which token_batches.h needs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/record_source.h"
#include "data/text/token_blocks.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

struct TextOptions {
  std::string data_dir;
  std::string dictionary_dir = {};  // the folder that says what ids mean, such as that of all shards; empty: data_dir
  std::string format;               // tokens | safetensors | text
  int64_t tokens_per_sample = 512;
  SampleBreak sample_break = SampleBreak::kComplete;
  double mask_prob = 0.15;
  bool mask_whole_words = false;
  bool mask_special_tokens = false;
  int64_t vocab_size = 0;  // 0: that of the dictionary
  int64_t seed = 0;        // for the masks
};

struct TextSplit {
  std::unique_ptr<RecordSource> source;  // blocks, or rows of a safetensors file
  std::unique_ptr<SampleDecoder> decoder;
  std::function<int64_t(int64_t index)> length;  // tokens of a sample; valid as long as `source`
  int64_t tokens_per_sample = 0;                 // longest sample
  int64_t vocabulary = 0;                        // that of the model: the data's, or a larger --vocab_size
  SpecialTokens special = {};
  int64_t too_long = 0;                 // number of blocks that were left out
  TokenType type = TokenType::kUInt16;  // of the tokens in a file
  std::vector<int64_t> shards = {};     // blocks of each folder, if there are several
};

// Whether files beside the data say what the ids of tokens mean: a dict.txt, readable or not, or a tokenizer that does
// without one. `data_dir` may also name a file.
bool HasDictionary(const std::string& data_dir);

// Returns the number of tokens that these files know: those in token files beside them are below it. Throws DataError
// if there is no such file, or it cannot be read.
int64_t StoredVocabulary(const std::string& data_dir);

// Opens a split. Token files need dict.txt beside them, and for whole-word masking the tokenizer's files; or the files
// of a tokenizer that does without (Tokenizer::has_dictionary). A safetensors file needs one of these in its folder or
// --vocab_size, with which the last token is <mask>. Raw text needs a tokenizer in dictionary_dir. Tokens must be in
// the dictionary, even if --vocab_size is larger. Throws DataError, which says what is missing, and Error (exit code 2)
// if options contradict the data.
TextSplit OpenText(const TextOptions& options, const std::string& split);

// Opens the split of several folders with token files as one. The dictionary is that of the first folder. Throws as
// OpenText does, and DataError if another folder has another dictionary.
TextSplit OpenShards(const TextOptions& options, const std::vector<std::string>& folders, const std::string& split);

}  // namespace dtrain::data
