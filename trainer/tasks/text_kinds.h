// What the tasks of texts have in common around their training (task_kind.h), and what those of sentences have. The
// latter differ in their labels (data::SentenceTarget), their head and their Task (text_task.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/sentences/sentence_split.h"
#include "models/text_model.h"
#include "models/text_options.h"
#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {

using TextTaskMaker = std::unique_ptr<Task> (*)(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                                at::Device device);
template <typename TaskType>
std::unique_ptr<Task> MakeTextTask(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                   at::Device device) {
  return std::make_unique<TaskType>(std::move(model), config, device);
}

class TextKind : public TaskKind {
 public:
  const char* name() const override { return name_; }
  std::optional<models::HeadKind> head() const override { return head_; }
  bool Takes(const std::string& model) const override;
  SampleSize SizeOf(const config::Config& config) const override;
  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override;
  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                          const DataSizes& sizes, at::Device device) const override;
  nlohmann::json Identity(const config::Config& config, const DataSets& data) const override;
  void AddMetadata(checkpoint::Metadata& metadata, const config::Config& config, const DataSets& data) const override;
  void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const override;

 protected:
  TextKind(const char* name, models::HeadKind head, TextTaskMaker make) : name_(name), head_(head), make_(make) {}
  // Returns the head of weights, with the names of the classes that they were trained on. Throws UsageError if they
  // have none for this task.
  virtual models::TextHead HeadIn(const config::Config& /*config*/, const weights::TrainedWeights& /*weights*/) const {
    return {.kind = head_};
  }
  virtual models::TextHead NewHead(const config::Config& /*config*/, const weights::WeightsOutline& /*weights*/,
                                   const DataSizes& /*data*/) const {
    return {.kind = head_};
  }

 private:
  nlohmann::ordered_json ConfigJson(const config::Config& config, const DataSets& data) const;

  const char* const name_;
  const models::HeadKind head_;
  const TextTaskMaker make_;
};

// Makes the kind of a task of sentences with such labels, which such a head learns. `require_learnable`, if it is not
// null, is TaskKind::RequireLearnable in place of asking for two classes.
using LearnableCheck = void (*)(const config::Config& config, const config::BatchSizes& batch, const DataSets& data);
std::unique_ptr<const TaskKind> MakeSentenceKind(const char* name, data::SentenceTarget target, models::HeadKind head,
                                                 TextTaskMaker make, LearnableCheck require_learnable);

// Returns the one kind of such tasks.
template <typename TaskType>
const TaskKind& SentenceKindOf(const char* name, data::SentenceTarget target, models::HeadKind head,
                               LearnableCheck require_learnable = nullptr) {
  static const auto kind = MakeSentenceKind(name, target, head, &MakeTextTask<TaskType>, require_learnable);
  return *kind;
}

// ---- Their data (sentence_data.cc) ----

// TaskKind::OpenData for sentences. Warns of truncated rows and of rows that are left out.
DataSets OpenSentenceSets(const config::Config& config, data::SentenceTarget target, const data::Classes& known);

// What the flags say of sentences. The tokenizer is looked for beside the weights, in the run directory and beside the
// data.
data::SentenceOptions SentenceOptionsOf(const config::Config& config, data::SentenceTarget target);

// Whether rows of a split have a number that is learned: a score, if they are several texts.
bool HasNumbers(const DataSplit& split);

// Warns of rows that were truncated or left out; `name` is of the split or the file.
void WarnOfCutRows(const data::SentenceSplit& split, const std::string& name);

bool HoldsSentences(const config::DataConfig& config);

// Where a tokenizer may be: beside the weights and the data, and with the run.
std::vector<std::string> TokenizerPaths(const config::Config& config);

// Returns the head that learns their labels. Throws DataError as data::LooksLikeRegression does.
models::HeadKind HeadHeld(const config::Config& config);

// ---- Their predictions (predict_sentences.cc) ----

// --mode=predict. --output names FILE.csv or FILE.jsonl for texts in FILE.tsv, .csv, .jsonl or .txt: a line for each
// text with the text, the predicted class and the probability of each class, or the predicted number; if words have
// labels, a line for each word with its tag, and of FILE.txt the entities of each line as transformers'
// pipeline("token-classification", aggregation_strategy="simple") has them: in FILE.csv a line for each entity, in
// FILE.jsonl one for each text. FILE.safetensors is for PredictTokens, N×T×outputs if tokens have labels. Throws
// UsageError and DataError, which name the file and the line.
void PredictSentences(const config::Config& config, data::SentenceTarget target, at::Device device);

// Writes --features for the texts of such a file, with any weights of the model: with kTextsTarget the vectors of
// --pooling. Throws as PredictSentences does.
void PredictTextFeatures(const config::Config& config, data::SentenceTarget target, at::Device device);

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
