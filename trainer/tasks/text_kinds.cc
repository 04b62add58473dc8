#include "trainer/tasks/text_kinds.h"

#include <utility>

#include "models/registry.h"
#include "trainer/errors.h"
#include "trainer/tasks/export.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/tasks/text_task.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/module_state.h"

namespace dtrain::tasks {

bool TextKind::Takes(const std::string& model) const { return models::ReadsText(model); }

SampleSize TextKind::SizeOf(const config::Config& config) const {
  return {"tokens_per_sample", config.text.tokens_per_sample};
}

std::unique_ptr<Task> TextKind::MakeTask(const config::Config& config, const DataSizes& sizes,
                                         at::Device device) const {
  const auto outline = weights::ReadOutline(config.model.init_weights);
  const auto options = weights::TextOptionsOf(config, {sizes.vocabulary, sizes.special}, outline);
  auto model = weights::MakeTextModel(options, NewHead(config, outline, sizes), config.batch.seed, device);
  if (config.precision.memory_efficient_fp16) model->to(at::kHalf);
  weights::Freeze(config.model, models::HeadName(config.model.name, head_), *model);
  return make_(std::move(model), config, device);
}

std::unique_ptr<Task> TextKind::MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                                  const DataSizes& sizes, at::Device device) const {
  const auto options = weights::TextOptionsOf(config, {sizes.vocabulary, sizes.special},
                                              weights::OutlineOf(weights.tensors, weights.model_config));
  auto model = weights::MakeTextModel(options, HeadIn(config, weights), config.batch.seed, device);
  weights::ApplyInitialWeights(weights.tensors, config.model, *model);
  return make_(std::move(model), config, device);
}

nlohmann::json TextKind::Identity(const config::Config& config, const DataSets& data) const {
  nlohmann::json shape = ConfigJson(config, data);
  models::EraseDropouts(shape);
  return {{weights::kModelShapeKey, shape}};
}

void TextKind::AddMetadata(checkpoint::Metadata& metadata, const config::Config& config, const DataSets& data) const {
  metadata[weights::kModelConfigKey] = ConfigJson(config, data).dump();
}

void TextKind::Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const {
  const models::TextHead head = HeadIn(config, weights);
  ExportText(std::move(weights), config, to_file, head);
}

nlohmann::ordered_json TextKind::ConfigJson(const config::Config& config, const DataSets& data) const {
  const auto outline = weights::ReadOutline(config.model.init_weights);
  return weights::TextOptionsOf(config, {data.vocabulary, data.special}, outline)
      .ToJson(NewHead(config, outline, data));
}

namespace {

class SentenceKind : public TextKind {
 public:
  SentenceKind(const char* name, data::SentenceTarget target, models::HeadKind head, TextTaskMaker make,
               LearnableCheck require_learnable)
      : TextKind(name, head, make), target_(target), require_learnable_(require_learnable) {}

  data::LabelKind labels() const override { return target_.labels.value_or(data::LabelKind::kClass); }
  DataSets OpenData(const config::Config& config, const data::Classes& known,
                    data::SharedIndexes* /*indexes*/) const override {
    return OpenSentenceSets(config, target_, known);
  }

  data::Classes ClassesOf(const config::Config& config, const weights::TrainedWeights& weights) const override {
    data::Classes classes{.pairs = weights.classes.pairs};
    if (predicts_number() || !has_head()) return classes;
    const std::vector<std::string> labels = HeadIn(config, weights).labels;
    classes.count = static_cast<int64_t>(labels.size());
    if (labels != models::NumberedLabels(classes.count)) classes.names = labels;
    return classes;
  }

  void RequireLearnable(const config::Config& config, const config::BatchSizes& batch,
                        const DataSets& data) const override {
    if (require_learnable_ != nullptr) return require_learnable_(config, batch, data);
    const bool has_several = labels() == data::LabelKind::kSeveral;
    if (predicts_number() || data.num_classes > (has_several ? 0 : 1)) return;
    const bool has_words = data.train->words != nullptr;
    throw DataError(std::string("all ") + (has_words ? "words" : "sentences") + " of split " + data.train->name +
                        (has_several ? " are without a label" : " have the same label") +
                        ", so that nothing is learned",
                    "check the column of the labels (--label_column)");
  }

  void KeepFiles(const config::Config& config, const std::filesystem::path& run_directory) const override {
    KeepSentenceTokenizer(TokenizerPaths(config), run_directory);
  }
  void Predict(const config::Config& config, at::Device device) const override {
    PredictSentences(config, target_, device);
  }

  DataSizes BenchSizes(const config::Config& config) const override {
    const int64_t classes = !has_head()                    ? 0
                            : predicts_number()            ? 1
                            : config.model.num_classes > 0 ? config.model.num_classes
                                                           : 2;
    return {.num_classes = classes, .vocabulary = weights::BenchVocabulary(config)};
  }

 protected:
  models::TextHead HeadIn(const config::Config& config, const weights::TrainedWeights& weights) const override {
    if (!has_head()) return TextKind::HeadIn(config, weights);
    auto given = weights::TextHeadIn(weights::OutlineOf(weights.tensors, weights.model_config), config.model.name);
    if (!given.labels_of(models::FactsOf(*head()).labelled)) {
      const std::string task = "--task=" + std::string(name());
      throw UsageError(weights.origin + " has no classification head" + (given.outputs() > 0 ? " for " + task : ""),
                       "name weights of a run with " + task + ", or train one");
    }
    if (predicts_number() && given.outputs() != 1) {
      throw UsageError(
          weights.origin + " has " + std::to_string(given.outputs()) + " outputs, but --task=" + name() + " has one",
          "leave --task out, or name other weights");
    }
    if (static_cast<int64_t>(weights.classes.names.size()) == given.outputs()) given.labels = weights.classes.names;
    given.kind = *head();
    return given;
  }

  models::TextHead NewHead(const config::Config& config, const weights::WeightsOutline& weights,
                           const DataSizes& data) const override {
    if (!has_head()) return TextKind::NewHead(config, weights, data);
    return {.kind = *head(),
            .labels = data.classes.names.empty() ? models::NumberedLabels(data.num_classes) : data.classes.names,
            .dropout = weights::ClassifierDropout(config, weights, *head())};
  }

 private:
  // The encoder alone makes vectors of texts.
  bool has_head() const { return head() != models::HeadKind::kNone; }
  bool predicts_number() const { return labels() == data::LabelKind::kNumbers; }

  const data::SentenceTarget target_;
  const LearnableCheck require_learnable_;  // may be null
};

}  // namespace

std::unique_ptr<const TaskKind> MakeSentenceKind(const char* name, data::SentenceTarget target, models::HeadKind head,
                                                 TextTaskMaker make, LearnableCheck require_learnable) {
  return std::make_unique<SentenceKind>(name, target, head, make, require_learnable);
}

const TaskKind& TextClassification() {
  return SentenceKindOf<TextClassificationTask>("text_classification", data::kClassTarget, models::HeadKind::kClasses);
}

const TaskKind& TextRegression() {
  return SentenceKindOf<TextRegressionTask>("text_regression", data::kNumberTarget, models::HeadKind::kNumber);
}

}  // namespace dtrain::tasks
