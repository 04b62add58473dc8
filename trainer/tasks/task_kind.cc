#include "trainer/tasks/task_kind.h"

#include "models/registry.h"
#include "models/weight_names.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/optim/loss_scaler.h"
#include "trainer/tasks/sentence_data.h"
#include "trainer/weights/roberta_model.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {

// Each is in a file of its own.
const TaskKind& ImageClassification();
const TaskKind& MaskedLm();
const TaskKind& TextClassification();
const TaskKind& TextRegression();

namespace {

constexpr char kUnresolved[] = "auto";
constexpr char kTextModel[] = "roberta";  // with the shape that its weights or --model_config tell

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

// Whether --init_weights is a folder of Hugging Face that holds a RoBERTa.
bool HoldsRoberta(const std::string& init_weights) {
  if (init_weights.empty() || !weights::HoldsWeights(init_weights)) return false;
  const auto json =
      nlohmann::json::parse(weights::FindWeights(init_weights).model_config, nullptr, /*allow_exceptions=*/false);
  const auto type = json.is_object() ? json.find("model_type") : json.end();
  return json.is_object() && type != json.end() && *type == "roberta";
}

// Returns the kind of a text model's weights.
const TaskKind& KindOfText(const weights::WeightsOutline& weights) {
  const auto classifier = weights::ClassifierIn(weights);
  if (!classifier) return MaskedLm();
  return classifier->regression ? TextRegression() : TextClassification();
}

// Returns the kind that the model, the data and the weights mean. Weights decide in modes without data.
const TaskKind& KindMeant(const config::Config& config) {
  const TaskKind& first = *FirstFor(config.model.name);
  if (!first.Takes(kTextModel)) return first;
  const bool has_data = config.run.mode == "train" || config.run.mode == "eval";
  if (has_data && !HoldsSentences(config.data)) return MaskedLm();
  const bool uses_weights = config.run.mode != "train" && !config.model.init_weights.empty();
  const TaskKind& of_weights = uses_weights ? KindOfText(weights::ReadOutline(config.model.init_weights)) : MaskedLm();
  if (!has_data || &of_weights != &MaskedLm()) return of_weights;
  return HoldsNumbers(config) ? TextRegression() : TextClassification();
}

// Whether --model was given, or comes from the run whose weights are used.
bool KnowsModel(const config::Config& config) {
  return config::WasGiven(config, "model") || (config.run.mode != "train" && !weights::NamedRun(config).empty());
}

// Whether a task of text, the weights of a RoBERTa or sentences were named. `said` is the kind of --task; null: none
// was named.
bool MeansText(const config::Config& config, const TaskKind* said) {
  if (said != nullptr) return said->Takes(kTextModel);
  return HoldsRoberta(config.model.init_weights) || HoldsSentences(config.data);
}

}  // namespace

int64_t TaskKind::LossScaleWindow(const config::Config& /*config*/) const {
  return optim::LossScalerOptions().growth_interval;
}

const std::vector<const TaskKind*>& TaskKinds() {
  static const std::vector<const TaskKind*> kinds = {&ImageClassification(), &MaskedLm(), &TextClassification(),
                                                     &TextRegression()};
  return kinds;
}

const TaskKind& KindOf(const config::Config& config) {
  const std::string& task = config.run.task;
  if (const TaskKind* kind = task == kUnresolved ? FirstFor(config.model.name) : KindNamed(task)) return *kind;
  throw UsageError("--task=" + task + " does not exist", "--list_tasks lists the tasks");
}

const TaskKind& KindOfWeights(const weights::TrainedWeights& weights, const config::Config& config) {
  const bool is_text = models::NamingOf(weights.tensors) != models::WeightNaming::kUnknown;
  const TaskKind* said = KindNamed(config.run.task);
  if (said != nullptr && said->Takes(kTextModel) == is_text) return *said;
  return is_text ? KindOfText(weights::OutlineOf(weights.tensors, weights.model_config)) : ImageClassification();
}

config::ModelFacts ModelFactsOf(const config::ModelConfig& config) {
  config::ModelFacts facts{.names = models::ModelNames()};
  for (const models::Family& family : models::Families()) facts.families.push_back({family.name, family.options});
  if (const models::Family* family = models::FindFamily(config.name)) facts.family = family->name;
  return facts;
}

void ResolveTask(config::Config& config) {
  const TaskKind* said = KindNamed(config.run.task);
  if (said == nullptr && config.run.task != kUnresolved) return;  // the checks of the flags refuse it
  std::string& model = config.model.name;
  if (!KnowsModel(config) && MeansText(config, said)) model = kTextModel;
  if (models::FindFamily(model) == nullptr) return;
  const bool any_weights = config.run.mode == "export" && !KnowsModel(config);  // their names tell: KindOfWeights
  if (said == nullptr && !any_weights) config.run.task = KindMeant(config).name();
  if (said == nullptr || said->Takes(model)) return;
  throw UsageError("--task=" + config.run.task + " is not for --model=" + model,
                   std::string("leave --task out, which means ") + FirstFor(model)->name() +
                       " here, or name another model (--list_models)");
}

}  // namespace dtrain::tasks
