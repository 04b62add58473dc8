// The tokenizer that the command line of dtrain_data names.
#pragma once

#include "data/error.h"
#include "data/prepare/options.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

inline TokenizerFiles ChosenTokenizer(const PrepareOptions& options) {
  if (options.tokenizer.empty()) return {.vocabulary = options.encoder_json, .merges = options.vocab_bpe};
  return {
      .vocabulary = options.tokenizer + "/vocab.json", .merges = options.tokenizer + "/merges.txt", .keeps_ids = true};
}

}  // namespace dtrain::data
