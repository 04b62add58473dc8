// --mode=predict for texts: a table of texts → a table with a prediction for each, words → a table of their tags, or a
// safetensors file of token ids → one of logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "data/outputs.h"
#include "data/record_source.h"
#include "models/text_options.h"
#include "trainer/config/config.h"

namespace dtrain::tasks {

// How a table of predictions is known again.
inline const std::vector<data::Mark> kSentenceMarks = {{"text,prediction", ",error"},
                                                       {"text,pair,prediction", ",error"},
                                                       {"{\"text\":", "\"prediction\":"},
                                                       {"{\"text\":", "\"error\":"},
                                                       // of words and of entities
                                                       {"sentence,line,word,prediction"},
                                                       {"line,entity_group,score"},
                                                       {"{\"sentence\":", "\"prediction\":"},
                                                       {"{\"text\":", "\"entities\":"}};

// --output names FILE.csv or FILE.jsonl for texts in FILE.tsv, .csv, .jsonl or .txt: a line for each text with the
// text, the predicted class and the probability of each class, or the predicted number; if words have labels, a line
// for each word with its tag, and of FILE.txt the entities of each line as transformers'
// pipeline("token-classification", aggregation_strategy="simple") has them: in FILE.csv a line for each entity, in
// FILE.jsonl one for each text. FILE.safetensors is for PredictTokens, N×T×outputs if tokens have labels. Throws
// UsageError and DataError, which name the file and the line.
void PredictSentences(const config::Config& config, at::Device device);

// Writes --features for the texts of such a file, with any weights of the model. Throws as PredictSentences does.
void PredictTextFeatures(const config::Config& config, at::Device device);

// Rows of token ids, int64 N×T, which tokens are attended, bool, and their types, int64 or undefined.
struct TokenRows {
  at::Tensor ids, attended, types;
};

// Reads input_ids, and attention_mask and token_type_ids, if there are any, of the safetensors file --input. Throws
// UsageError if that is no file, DataError if its tensors are not of the right kind.
TokenRows ReadTokenRows(const config::Config& config);

// Writes `logits` of these rows, N×outputs or N×T×outputs, to the safetensors file --output. Without `attended` every
// <pad> is padding. `logits_of` is called for some rows at a time; logits of rows without a token become 0, with a
// warning. `classes` as of WriteLogits. Throws DataError if the rows are not of this model.
void PredictTokens(const config::Config& config, TokenRows rows, const models::TextShape& model,
                   const data::Classes* classes, const std::function<at::Tensor(const TokenRows& rows)>& logits_of);

}  // namespace dtrain::tasks
