// --mode=predict for texts: a table of texts → a table with a prediction for each, words → a table of their tags, or a
// safetensors file of token ids → one of logits.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/outputs.h"
#include "data/pipeline/batch.h"
#include "data/sentences/sentence_split.h"
#include "models/text_options.h"
#include "trainer/config/config.h"
#include "trainer/tasks/task.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {

// How a table of predictions is known again.
inline const std::vector<data::Mark> kSentenceMarks = {{"text,prediction"},
                                                       {"text,pair,prediction"},
                                                       {"{\"text\":", "\"prediction\":"},
                                                       {"{\"text\":", "\"error\":"},
                                                       // of words and of entities
                                                       {"sentence,line,word,prediction"},
                                                       {"line,entity_group,score"},
                                                       {"{\"sentence\":", "\"prediction\":"},
                                                       {"{\"text\":", "\"entities\":"}};

// --output names FILE.csv or FILE.jsonl for texts in FILE.tsv, .csv, .jsonl or .txt: a line for each text with the
// text, the predicted class and the probability of each class, or the predicted number. FILE.safetensors is for the
// tensor `logits`, N×outputs, of --input with input_ids, or N×T×outputs if tokens have labels. Throws UsageError and
// DataError, which name the file and the line.
void PredictSentences(const config::Config& config, at::Device device);

// Writes --features for the texts of such a file, with any weights of the model. Throws as PredictSentences does.
void PredictTextFeatures(const config::Config& config, at::Device device);

// Writes the tag of each word in --input (data/sentences/sentence_set.h), with a line for each word; of FILE.txt the
// entities of each line as transformers' pipeline("token-classification", aggregation_strategy="simple") has them: in
// FILE.csv a line for each entity, in FILE.jsonl one for each text.
void PredictWords(const config::Config& config, const weights::TrainedWeights& weights, at::Device device);

// For these functions alone.

// Runs a trained model on rows.
class SentencePredictor {
 public:
  SentencePredictor(const config::Config& config, const weights::TrainedWeights& weights, at::Device device);

  const models::TextShape& shape() const;
  int64_t batch_size() const { return batch_size_; }

  struct Prediction {
    at::Tensor logits;      // float32 on the host: a row for each row, or for each word with a label
    at::Tensor words = {};  // int64: the numbers of these words
  };
  Prediction Of(const data::Batch& rows);

 private:
  const std::unique_ptr<Task> task_;
  const int64_t batch_size_;
};

// The names of the classes, or LABEL_0, LABEL_1, … if they are unknown; none for a regression.
std::vector<std::string> LabelsOf(const config::Config& config, const weights::TrainedWeights& weights);

// Opens the texts in --input for a model that was trained on `pairs` or on single texts, if that matters and is known.
// Throws UsageError, also if their tokens cannot be those of `weights`.
data::SentenceSplit OpenTexts(const config::Config& config, const weights::TrainedWeights& weights,
                              std::optional<bool> pairs, data::SentenceTarget target);

// Calls `predict` for a batch of rows (RowsOf) until all have had their turn.
void ForBatches(const data::SentenceSplit& split, const config::Config& config,
                const std::function<void(const data::Batch& rows)>& predict);

// Says how many rows were predicted and, as for images, how many could not be read.
void PrintCount(const config::Config& config, const data::SentenceSplit& split);

}  // namespace dtrain::tasks
