#include "trainer/tasks/task_kind.h"

#include <algorithm>

#include "data/shallow_json.h"
#include "models/registry.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/tasks/text_kinds.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/sentence_folder.h"
#include "trainer/weights/text_model.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {

// Each is in a file of its own.
const TaskKind& ImageClassification();
const TaskKind& ImageMultilabel();
const TaskKind& ImageRegression();
const TaskKind& MaskedLm();
const TaskKind& TextClassification();
const TaskKind& SentenceEmbedding();
const TaskKind& TextRegression();
const TaskKind& TextMultilabel();
const TaskKind& TokenClassification();

namespace {

constexpr char kUnresolved[] = "auto";

const TaskKind* KindNamed(const std::string& name) {
  for (const TaskKind* kind : TaskKinds()) {
    if (kind->name() == name) return kind;
  }
  return nullptr;
}

const TaskKind* FirstFor(const std::string& model) {
  for (const TaskKind* kind : TaskKinds()) {
    if (kind->Takes(model)) return kind;
  }
  return nullptr;
}

// Returns the kind of model that a config.json of transformers names; empty if it names none.
std::string ModelTypeIn(const std::string& model_config) {
  return weights::TextIn(ParseObject(model_config), "model_type");
}

// Returns the model of text that a config.json is of; empty if it is of none.
std::string TextModelIn(const std::string& model_config) {
  const std::string type = ModelTypeIn(model_config);
  return type.empty() ? "" : models::TextModelOfType(type);
}

const TaskKind& KindWithHead(models::HeadKind head) { return **std::ranges::find(TaskKinds(), head, &TaskKind::head); }

const TaskKind& KindOfText(const weights::WeightsOutline& weights, const std::string& model) {
  return KindWithHead(weights::TextHeadIn(weights, model).kind);
}

bool LearnsText(const TaskKind& kind) { return kind.Takes(config::kTextModel); }

// Whether the data are sentences, or, if there are none, were to be: whoever names columns should not be told of
// --task=masked_lm.
bool MeansSentences(const config::Config& config) {
  const bool names_columns =
      !config.text.text_column.empty() || !config.text.pair_column.empty() || !config.data.label_column.empty();
  return names_columns || HoldsSentences(config.data);
}

// Returns the kind that the model, the data and the weights mean. Weights decide in modes without data, and of images
// in evaluations, too.
const TaskKind& KindMeant(const config::Config& config) {
  if (!models::ReadsText(config.model.name)) {
    return config.run.mode == "train" ? ImageClassification() : ImageKindIn(weights::NamedConfig(config));
  }
  const std::string named = weights::GivenWeights(config);
  if (config.run.mode != "train" && weights::IsSentenceFolder(named)) return SentenceEmbedding();
  const bool has_data = config.run.mode == "train" || config.run.mode == "eval";
  if (has_data && !MeansSentences(config)) return MaskedLm();
  const bool uses_weights = config.run.mode != "train" && !named.empty();
  const TaskKind& of_weights = uses_weights ? KindOfText(weights::ReadOutline(named), config.model.name) : MaskedLm();
  return has_data && &of_weights == &MaskedLm() ? KindWithHead(HeadHeld(config)) : of_weights;
}

// Whether --model was given, or comes from the run or the file whose weights are used.
bool KnowsModel(const config::Config& config) {
  return config::WasGiven(config, "model") || models::ReadsText(config.model.name) ||
         (config.run.mode != "train" && !weights::NamedRun(config).empty());
}

// Returns the model of text whose names the given weights have; empty if they are of none.
std::string TextModelByNames(const config::Config& config) {
  const std::string named = weights::GivenWeights(config);
  if (named.empty() || !(data::IsFile(named) || weights::HoldsWeights(named)))
    return "";  // reported when they are read
  const std::string model =
      models::RecognisedModel(weights::ReadWeightsHeader(weights::FindWeights(named).file).shapes);
  return models::ReadsText(model) ? model : "";
}

// Returns the model that a task of text, a config.json or weights of such a model, or sentences mean; empty if none of
// them was named. `said` is the kind of --task; null: none was named.
std::string TextModelMeant(const config::Config& config, const TaskKind* said) {
  if (said != nullptr && !LearnsText(*said)) return "";
  const std::string model_config = weights::NamedConfig(config);
  const std::string model = ModelTypeIn(model_config).empty() ? TextModelByNames(config) : TextModelIn(model_config);
  const bool learns_text = said != nullptr || HoldsSentences(config.data);
  return model.empty() && learns_text ? config::kTextModel : model;
}

}  // namespace

int64_t TaskKind::LossScaleWindow(const config::Config& /*config*/) const {
  return optim::LossScalerOptions().growth_interval;
}

const std::vector<const TaskKind*>& TaskKinds() {
  // clang-format off
  static const std::vector<const TaskKind*> kinds = {
      &ImageClassification(),
      &ImageMultilabel(),
      &ImageRegression(),
      &MaskedLm(),
      &TextClassification(),
      &TextRegression(),
      &TextMultilabel(),
      &TokenClassification(),
      &SentenceEmbedding(),
  };
  // clang-format on
  return kinds;
}

const TaskKind& KindOf(const config::Config& config) {
  const std::string& task = config.run.task;
  if (const TaskKind* kind = task == kUnresolved ? FirstFor(config.model.name) : KindNamed(task)) return *kind;
  throw UsageError("--task=" + task + " does not exist", "--list_tasks lists the tasks");
}

std::string TextModelOf(const checkpoint::NamedTensors& weights, const std::string& model_config,
                        const std::string& said) {
  const std::string by_names = models::RecognisedModel(weights);
  if (!models::ReadsText(by_names)) return "";
  if (models::ReadsText(said)) return said;
  const std::string by_config = TextModelIn(model_config);
  return by_config.empty() ? by_names : by_config;
}

const char* ProblemType(data::LabelKind labels) {
  if (labels == data::LabelKind::kClass) return "single_label_classification";
  return labels == data::LabelKind::kSeveral ? "multi_label_classification" : "regression";
}

const TaskKind& ImageKindIn(const std::string& model_config) {
  const std::string said = weights::TextIn(ParseObject(model_config), "problem_type");
  for (const TaskKind* kind : TaskKinds()) {
    if (!LearnsText(*kind) && ProblemType(kind->labels()) == said) return *kind;
  }
  return ImageClassification();
}

const TaskKind& KindOfWeights(const weights::TrainedWeights& weights, const config::Config& config) {
  const std::string model = TextModelOf(weights.tensors, weights.model_config, config.model.name);
  const bool is_text = !model.empty();
  const TaskKind* said = KindNamed(config.run.task);
  if (said != nullptr && LearnsText(*said) == is_text) return *said;
  if (said != nullptr && config::WasGiven(config, "task")) {
    throw UsageError(
        "--task=" + config.run.task + " is not for " + weights.origin + ", a model of " + (is_text ? "text" : "images"),
        "leave --task out");
  }
  if (!is_text) return ImageKindIn(weights.model_config);
  return KindOfText(weights::OutlineOf(weights.tensors, weights.model_config), model);
}

config::ModelFacts ModelFactsOf(const config::ModelConfig& config) {
  config::ModelFacts facts{.names = models::ModelNames()};
  for (const models::Family& family : models::Families()) {
    facts.families.push_back({family.name, family.options});
    if (family.layer_of != nullptr) facts.families.back().options.push_back("layer_decay");
    if (family.input == models::Input::kText) facts.of_any_shape.push_back(family.models.front().name);
  }
  if (const models::Family* family = models::FindFamily(config.name)) facts.family = family->name;
  return facts;
}

void ResolveTask(config::Config& config) {
  const TaskKind* said = KindNamed(config.run.task);
  if (said == nullptr && config.run.task != kUnresolved) return;  // the checks of the flags refuse it
  std::string& model = config.model.name;
  const std::string text = KnowsModel(config) ? "" : TextModelMeant(config, said);
  if (!text.empty()) model = text;
  if (!KnowsModel(config)) weights::TakeImageModelOfWeights(config);
  if (models::FindFamily(model) == nullptr) return;
  const bool any_weights = config.run.mode == "export" && !KnowsModel(config);  // their names tell: KindOfWeights
  if (said == nullptr && !any_weights) config.run.task = KindMeant(config).name();
  if (said == nullptr || said->Takes(model)) return;
  const bool reads_text = models::ReadsText(model);  // whose data tell
  throw UsageError("--task=" + config.run.task + " is not for --model=" + model,
                   "leave --task out" +
                       (reads_text ? "" : std::string(", which means ") + KindMeant(config).name() + " here") +
                       ", or name another model (--list_models)");
}

}  // namespace dtrain::tasks
