#include "trainer/tasks/sentence_kinds.h"

#include <utility>

#include "models/registry.h"
#include "trainer/errors.h"
#include "trainer/tasks/export_text.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/tasks/predict_sentences.h"
#include "trainer/tasks/sentence_data.h"
#include "trainer/tasks/sentence_task.h"
#include "trainer/weights/freeze.h"
#include "trainer/weights/initial_weights.h"

namespace dtrain::tasks {
models::ClassifierOptions HeadFor(data::SentenceTarget target) {
  return {.absent = target == data::SentenceTarget::kTexts,
          .labels = {},
          .regression = target == data::SentenceTarget::kNumber,
          .of_tokens = target == data::SentenceTarget::kOfWords,
          .multilabel = target == data::SentenceTarget::kSeveral};
}

bool SentenceKind::Takes(const std::string& model) const { return models::ReadsText(model); }

bool SentenceKind::OwnsHead(const models::ClassifierOptions* head) const {
  const models::ClassifierOptions own = HeadFor(target_);
  return head != nullptr && head->absent == own.absent && head->regression == own.regression &&
         head->of_tokens == own.of_tokens && head->multilabel == own.multilabel;
}

std::string SentenceKind::HeadName(const std::string& model) const {
  return has_head() ? models::ClassifierName(model) : "";
}

SampleSize SentenceKind::SizeOf(const config::Config& config) const {
  return {"tokens_per_sample", config.text.tokens_per_sample};
}

DataSets SentenceKind::OpenData(const config::Config& config, const data::Classes& known,
                                data::SharedIndexes* /*indexes*/) const {
  return OpenSentenceSets(config, target_, known);
}

data::Classes SentenceKind::ClassesOf(const config::Config& config, const weights::TrainedWeights& weights) const {
  data::Classes classes{.pairs = weights.classes.pairs};
  if (predicts_number() || !has_head()) return classes;
  const std::vector<std::string> labels = HeadIn(config, weights).labels;
  classes.count = static_cast<int64_t>(labels.size());
  if (labels != models::NumberedLabels(classes.count)) classes.names = labels;
  return classes;
}

std::unique_ptr<Task> SentenceKind::MakeTask(const config::Config& config, const DataSizes& sizes,
                                             at::Device device) const {
  const auto outline = weights::ReadOutline(config.model.init_weights);
  auto model = Made(config, sizes, outline, models::NumberedLabels(sizes.num_classes), device);
  if (config.precision.memory_efficient_fp16) model->to(at::kHalf);
  weights::Freeze(config.model, HeadName(config.model.name), *model);
  return TaskWith(std::move(model), config, device);
}

std::unique_ptr<Task> SentenceKind::MakeInferenceTask(const config::Config& config,
                                                      const weights::TrainedWeights& weights, const DataSizes& sizes,
                                                      at::Device device) const {
  const weights::WeightsOutline outline = weights::OutlineOf(weights.tensors, weights.model_config);
  auto model = Made(config, sizes, outline, HeadIn(config, weights).labels, device);
  weights::ApplyInitialWeights(weights.tensors, config.model, *model);
  return TaskWith(std::move(model), config, device);
}

void SentenceKind::RequireLearnable(const config::Config& /*config*/, const config::BatchSizes& /*batch*/,
                                    const DataSets& data) const {
  if (predicts_number() || data.num_classes > 1) return;
  const bool has_words = data.train->words != nullptr;
  throw DataError(std::string("all ") + (has_words ? "words" : "sentences") + " of split " + data.train->name +
                      " have the same label, so that nothing is learned",
                  "check the column of the labels (--label_column)");
}

nlohmann::json SentenceKind::Identity(const config::Config& config, const DataSets& data) const {
  nlohmann::json shape = ConfigJson(config, data);
  models::EraseDropouts(shape);
  return {{weights::kModelShapeKey, shape}};
}

void SentenceKind::AddMetadata(checkpoint::Metadata& metadata, const config::Config& config,
                               const DataSets& data) const {
  metadata[weights::kModelConfigKey] = ConfigJson(config, data).dump();
}

void SentenceKind::KeepFiles(const config::Config& config, const std::filesystem::path& run_directory) const {
  KeepSentenceTokenizer(SentenceOptionsOf(config, data::SentenceTarget::kNone).tokenizer_paths, run_directory);
}

void SentenceKind::Predict(const config::Config& config, at::Device device) const { PredictSentences(config, device); }

void SentenceKind::Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const {
  const models::ClassifierOptions head = HeadIn(config, weights);
  ExportText(std::move(weights), config, to_file, &head);
}

DataSizes SentenceKind::BenchSizes(const config::Config& config) const {
  const int64_t classes = !has_head()                    ? 0
                          : predicts_number()            ? 1
                          : config.model.num_classes > 0 ? config.model.num_classes
                                                         : 2;
  return {.num_classes = classes, .vocabulary = weights::BenchVocabulary(config)};
}

models::ClassifierOptions SentenceKind::HeadIn(const config::Config& config,
                                               const weights::TrainedWeights& weights) const {
  if (!has_head()) return HeadFor(target_);
  auto head = weights::ClassifierIn(weights::OutlineOf(weights.tensors, weights.model_config), config.model.name);
  const models::ClassifierOptions own = HeadFor(target_);
  if (!head || head->of_tokens != own.of_tokens) {
    throw UsageError(
        weights.origin + " has no classification head" + (head ? " for --task=" + std::string(name()) : ""),
        "name weights of a run with --task=" + std::string(name()) + ", or train one");
  }
  if (own.regression && head->outputs() != 1) {
    throw UsageError(
        weights.origin + " has " + std::to_string(head->outputs()) + " outputs, but --task=" + name() + " has one",
        "leave --task out, or name other weights");
  }
  if (static_cast<int64_t>(weights.classes.names.size()) == head->outputs()) head->labels = weights.classes.names;
  head->regression = own.regression;
  head->multilabel = own.multilabel;
  return *head;
}

models::ClassifierOptions SentenceKind::NewHead(const config::Config& config, const weights::WeightsOutline& weights,
                                                std::vector<std::string> labels) const {
  if (!has_head()) return HeadFor(target_);
  auto head = weights::ClassifierOf(config, weights, std::move(labels), predicts_number());
  head.of_tokens = HeadFor(target_).of_tokens;
  head.multilabel = predicts_several();
  return head;
}

std::shared_ptr<models::TextModel> SentenceKind::Made(const config::Config& config, const DataSizes& sizes,
                                                      const weights::WeightsOutline& weights,
                                                      std::vector<std::string> labels, at::Device device) const {
  const auto head = NewHead(config, weights, std::move(labels));
  const auto options = weights::TextOptionsOf(config, {sizes.vocabulary, sizes.special}, weights);
  return weights::MakeTextModel(options, &head, config.batch.seed, device);
}

nlohmann::ordered_json SentenceKind::ConfigJson(const config::Config& config, const DataSets& data) const {
  const auto labels = data.classes.names.empty() ? models::NumberedLabels(data.num_classes) : data.classes.names;
  const auto outline = weights::ReadOutline(config.model.init_weights);
  const auto head = NewHead(config, outline, labels);
  return weights::TextOptionsOf(config, {data.vocabulary, data.special}, outline).ToJson(&head);
}

const TaskKind& TextClassification() {
  static const SentenceKindOf<TextClassificationTask> kind("text_classification", data::SentenceTarget::kClass);
  return kind;
}

const TaskKind& TextRegression() {
  static const SentenceKindOf<TextRegressionTask> kind("text_regression", data::SentenceTarget::kNumber);
  return kind;
}

}  // namespace dtrain::tasks
