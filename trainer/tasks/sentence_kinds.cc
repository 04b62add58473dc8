// --task=text_classification and text_regression, which differ in their labels and in their Task (sentence_task.h).
#include <utility>

#include "models/registry.h"
#include "trainer/errors.h"
#include "trainer/tasks/export_text.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/tasks/predict_sentences.h"
#include "trainer/tasks/sentence_data.h"
#include "trainer/tasks/sentence_task.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/freeze.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
namespace {

class SentenceKind : public TaskKind {
 public:
  bool Takes(const std::string& model) const override { return models::ReadsText(model); }
  std::string HeadName(const std::string& model) const override { return models::ClassifierName(model); }
  SampleSize SizeOf(const config::Config& config) const override {
    return {"tokens_per_sample", config.text.tokens_per_sample};
  }

  DataSets OpenData(const config::Config& config, const data::Classes& known,
                    data::SharedIndexes* /*indexes*/) const override {
    const auto target = is_regression() ? data::SentenceTarget::kNumber : data::SentenceTarget::kClass;
    return OpenSentenceSets(config, target, known);
  }

  data::Classes ClassesOf(const config::Config& /*config*/, const weights::TrainedWeights& weights) const override {
    return {.pairs = weights.classes.pairs};
  }

  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override {
    const auto outline = weights::ReadOutline(config.model.init_weights);
    auto model = Made(config, sizes, outline, models::NumberedLabels(sizes.num_classes), device);
    if (config.precision.memory_efficient_fp16) model->to(at::kHalf);
    weights::Freeze(config.model, HeadName(config.model.name), *model);
    return TaskWith(std::move(model), config, device);
  }

  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                          const DataSizes& sizes, at::Device device) const override {
    const weights::WeightsOutline outline = weights::OutlineOf(weights.tensors, weights.model_config);
    auto model = Made(config, sizes, outline, HeadIn(config, weights).labels, device);
    weights::ApplyInitialWeights(weights.tensors, config.model, *model);
    return TaskWith(std::move(model), config, device);
  }

  nlohmann::json Identity(const config::Config& config, const DataSets& data) const override {
    nlohmann::json shape = ConfigJson(config, data);
    models::EraseDropouts(shape);
    return {{weights::kModelShapeKey, shape}};
  }

  void AddMetadata(checkpoint::Metadata& metadata, const config::Config& config, const DataSets& data) const override {
    metadata[weights::kModelConfigKey] = ConfigJson(config, data).dump();
  }

  void KeepFiles(const config::Config& config, const std::filesystem::path& run_directory) const override {
    KeepSentenceTokenizer(SentenceOptionsOf(config, data::SentenceTarget::kNone).tokenizer_paths, run_directory);
  }

  void Predict(const config::Config& config, at::Device device) const override { PredictSentences(config, device); }

  void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const override {
    const models::ClassifierOptions head = HeadIn(config, weights);
    ExportText(std::move(weights), config, to_file, &head);
  }

 protected:
  virtual bool is_regression() const = 0;
  virtual std::unique_ptr<Task> TaskWith(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                         at::Device device) const = 0;

  // Returns the head of weights, with the names of the classes that they were trained on. Throws UsageError if they
  // have none for this task.
  models::ClassifierOptions HeadIn(const config::Config& config, const weights::TrainedWeights& weights) const {
    auto head = weights::ClassifierIn(weights::OutlineOf(weights.tensors, weights.model_config), config.model.name);
    if (!head) {
      throw UsageError(weights.origin + " has no classification head",
                       "name weights of a run with --task=" + std::string(name()) + ", or train one");
    }
    if (is_regression() && head->outputs() != 1) {
      throw UsageError(
          weights.origin + " has " + std::to_string(head->outputs()) + " outputs, but --task=" + name() + " has one",
          "leave --task out, or name other weights");
    }
    if (static_cast<int64_t>(weights.classes.names.size()) == head->outputs()) head->labels = weights.classes.names;
    head->regression = is_regression();
    return *head;
  }

 private:
  std::shared_ptr<models::TextModel> Made(const config::Config& config, const DataSizes& sizes,
                                          const weights::WeightsOutline& weights, std::vector<std::string> labels,
                                          at::Device device) const {
    const auto head = weights::ClassifierOf(config, weights, std::move(labels), is_regression());
    const auto options = weights::TextOptionsOf(config, sizes.vocabulary, weights);
    return weights::MakeTextModel(options, &head, config.batch.seed, device);
  }

  nlohmann::ordered_json ConfigJson(const config::Config& config, const DataSets& data) const {
    const auto labels = data.classes.names.empty() ? models::NumberedLabels(data.num_classes) : data.classes.names;
    const auto outline = weights::ReadOutline(config.model.init_weights);
    const auto head = weights::ClassifierOf(config, outline, labels, is_regression());
    return weights::TextOptionsOf(config, data.vocabulary, outline).ToJson(&head);
  }
};

class TextClassificationKind : public SentenceKind {
 public:
  const char* name() const override { return "text_classification"; }

  data::Classes ClassesOf(const config::Config& config, const weights::TrainedWeights& weights) const override {
    const std::vector<std::string> labels = HeadIn(config, weights).labels;
    const auto count = static_cast<int64_t>(labels.size());
    data::Classes classes = SentenceKind::ClassesOf(config, weights);
    classes.count = count;
    if (labels != models::NumberedLabels(count)) classes.names = labels;
    return classes;
  }

  void RequireLearnable(const config::Config& /*config*/, const config::BatchSizes& /*batch*/,
                        const DataSets& data) const override {
    if (data.num_classes > 1) return;
    throw DataError("all sentences of split " + data.train->name + " have the same label, so that nothing is learned",
                    "check the column of the labels (--label_column)");
  }

  DataSizes BenchSizes(const config::Config& config) const override {
    const int64_t classes = config.model.num_classes > 0 ? config.model.num_classes : 2;
    return {.num_classes = classes, .vocabulary = weights::BenchVocabulary(config)};
  }

 protected:
  bool is_regression() const override { return false; }
  std::unique_ptr<Task> TaskWith(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                 at::Device device) const override {
    return std::make_unique<TextClassificationTask>(std::move(model), config, device);
  }
};

class TextRegressionKind : public SentenceKind {
 public:
  const char* name() const override { return "text_regression"; }
  bool predicts_number() const override { return true; }

  DataSizes BenchSizes(const config::Config& config) const override {
    return {.num_classes = 1, .vocabulary = weights::BenchVocabulary(config)};
  }

 protected:
  bool is_regression() const override { return true; }
  std::unique_ptr<Task> TaskWith(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                 at::Device device) const override {
    return std::make_unique<TextRegressionTask>(std::move(model), config, device);
  }
};

}  // namespace

const TaskKind& TextClassification() {
  static const TextClassificationKind kind;
  return kind;
}

const TaskKind& TextRegression() {
  static const TextRegressionKind kind;
  return kind;
}

}  // namespace dtrain::tasks
