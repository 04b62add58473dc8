// A split of text, ready for the loader: its samples, how they become rows (token_rows.h), and how long they are, which
// token_batches.h wants to know.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/record_source.h"
#include "data/sample_decoder.h"
#include "data/text/token_blocks.h"

namespace dtrain::data {

struct TextOptions {
  std::string data_dir;
  std::string format;  // tokens | safetensors
  int64_t tokens_per_sample = 512;
  SampleBreak sample_break = SampleBreak::kComplete;
  double mask_prob = 0.15;
  bool mask_whole_words = false;
  bool mask_special_tokens = false;
  int64_t vocab_size = 0;  // 0: the dictionary says it
  int64_t seed = 0;        // of the masks
};

struct TextSplit {
  std::unique_ptr<RecordSource> source;  // of blocks, or of rows of a safetensors file
  std::unique_ptr<SampleDecoder> decoder;
  std::function<int64_t(int64_t index)> length;  // tokens of a sample; lives as long as source
  int64_t tokens_per_sample = 0;                 // at most
  int64_t vocabulary = 0;                        // of the model
  int64_t mask_token = 0;
  int64_t too_long = 0;  // blocks that were left out
};

// Opens a split. Token files need dict.txt beside them, and for whole words the tokenizer's files; a safetensors file
// needs --vocab_size, or dict.txt in its folder, and without a dictionary the last token is <mask>. Throws DataError
// naming what is missing, and Error (exit code 2) where options contradict the data.
TextSplit OpenText(const TextOptions& options, const std::string& split);

}  // namespace dtrain::data
