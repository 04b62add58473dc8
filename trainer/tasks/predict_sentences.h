// --mode=predict for texts: a table of texts → a table with a prediction for each, or a safetensors file
// of token ids → one of logits.
#pragma once

#include <c10/core/Device.h>

#include "data/outputs.h"
#include "trainer/config/config.h"

namespace dtrain::tasks {

// How a table of predictions is known again.
inline const std::vector<data::Mark> kSentenceMarks = {
    {"text,prediction"}, {"text,pair,prediction"}, {"{\"text\":", "\"prediction\":"}, {"{\"text\":", "\"error\":"}};

// --output names FILE.csv or FILE.jsonl for texts in FILE.tsv, .csv, .jsonl or .txt: a line for each text with the
// text, the predicted class and the probability of each class, or the predicted number. FILE.safetensors is for the
// tensor `logits`, N×outputs, of --input with input_ids. Throws UsageError and DataError, which name the file and the
// line.
void PredictSentences(const config::Config& config, at::Device device);

// Writes --features for the texts of such a file, with any weights of the model. Throws as PredictSentences does.
void PredictTextFeatures(const config::Config& config, at::Device device);

}  // namespace dtrain::tasks
