// Missing keys have the values that transformers' PretrainedConfig gives them.
#include "models/text_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace dtrain::models {
namespace {

constexpr char kRegression[] = "regression", kClassification[] = "single_label_classification",
               kMultilabel[] = "multi_label_classification";

// Of those with the same class in transformers, the first one is meant if nothing tells more.
constexpr HeadFacts kHeads[] = {
    {HeadKind::kWords, Labelled::kNothing, "ForMaskedLM", nullptr},
    {HeadKind::kClasses, Labelled::kSequences, "ForSequenceClassification", kClassification},
    {HeadKind::kSeveral, Labelled::kSequences, "ForSequenceClassification", kMultilabel},
    {HeadKind::kNumber, Labelled::kSequences, "ForSequenceClassification", kRegression},
    {HeadKind::kTokens, Labelled::kTokens, "ForTokenClassification", nullptr, "with labels of tokens"},
    {HeadKind::kNone, Labelled::kNothing, "Model", nullptr, "for vectors of texts"},
};

// The value of a key, or null if it is missing.
const nlohmann::json& ValueOf(const nlohmann::json& config, const char* key) {
  static const nlohmann::json kNull;
  const auto found = config.find(key);
  return found == config.end() ? kNull : *found;
}

// {"0": "cat", "1": "dog"} → cat, dog.
std::vector<std::string> LabelsOf(const nlohmann::json& id2label) {
  if (!id2label.is_object() || id2label.empty())
    RefuseValue("id2label", id2label, "an object with a name for each label");
  std::vector<std::string> labels;
  for (size_t label = 0; label < id2label.size(); ++label) {
    const nlohmann::json& name = ValueOf(id2label, std::to_string(label).c_str());
    if (!name.is_string() || name.get_ref<const std::string&>().empty()) {
      RefuseValue("id2label", id2label,
                  "names for the labels 0 to " + std::to_string(id2label.size() - 1) + ": that of " +
                      std::to_string(label) + " is missing or no text");
    }
    labels.push_back(name.get<std::string>());
  }
  if (std::set<std::string>(labels.begin(), labels.end()).size() != labels.size()) {
    RefuseValue("id2label", id2label, "a different name for each label");
  }
  return labels;
}

}  // namespace

const HeadFacts& FactsOf(HeadKind kind) { return *std::ranges::find(kHeads, kind, &HeadFacts::kind); }

nlohmann::ordered_json TextOptions::ToJson(const TextHead& head) const { return to_json(shape, head); }

void EraseDropouts(nlohmann::json& config) {
  for (auto field = config.begin(); field != config.end();) {
    const bool is_dropout = field.key().find("dropout") != std::string::npos;
    field = is_dropout ? config.erase(field) : std::next(field);
  }
}

std::vector<std::string> NumberedLabels(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t label = 0; label < count; ++label) labels.push_back("LABEL_" + std::to_string(label));
  return labels;
}

std::optional<TextHead> HeadFromJson(const nlohmann::json& config, const std::string& classes) {
  RequireObject(config);
  const nlohmann::json& architectures = ValueOf(config, "architectures");
  const auto is_named = [&](const HeadFacts& head) {
    return head.labelled != Labelled::kNothing &&
           std::find(architectures.begin(), architectures.end(), classes + head.ending) != architectures.end();
  };
  const auto* const named = std::ranges::find_if(kHeads, is_named);
  if (named == std::end(kHeads)) return std::nullopt;

  constexpr int64_t kMostLabels = 1 << 20;
  const nlohmann::json &id2label = ValueOf(config, "id2label"), &problem = ValueOf(config, "problem_type");
  int64_t count = 2;
  if (!id2label.is_null()) count = static_cast<int64_t>(id2label.size());
  TextHead head{.kind = named->kind};
  ReadWhole(config, "num_labels", 1, kMostLabels, count);
  head.labels = id2label.is_null() ? NumberedLabels(count) : LabelsOf(id2label);
  if (count != head.outputs()) RefuseValue("num_labels", count, "that of id2label, " + std::to_string(head.outputs()));
  const auto is_said = [&problem](const char* type) { return type != nullptr && problem == type; };
  const auto* const said = std::ranges::find_if(kHeads, is_said, &HeadFacts::problem_type);
  if (!problem.is_null() && said == std::end(kHeads)) {
    RefuseValue("problem_type", problem, std::string(kClassification) + ", " + kMultilabel + " or " + kRegression);
  }
  if (named->problem_type != nullptr) {
    head.kind = said != std::end(kHeads) ? said->kind : count == 1 ? HeadKind::kNumber : named->kind;
  }
  if (head.kind == HeadKind::kNumber && count != 1) RefuseValue("num_labels", count, "1 for a regression");
  head.dropout = ClassifierDropoutFromJson(config, head.kind);
  return head;
}

std::optional<double> ClassifierDropoutFromJson(const nlohmann::json& config, HeadKind head) {
  RequireObject(config);
  const bool of_tokens = FactsOf(head).labelled == Labelled::kTokens;
  for (const char* field : {kClassifierDropout, kSequenceDropout}) {
    if (ValueOf(config, field).is_null() || (of_tokens && field == kSequenceDropout)) continue;
    double dropout = 0;
    ReadNumber(config, field, 1, dropout);
    return dropout;
  }
  return std::nullopt;
}

void AddTo(nlohmann::ordered_json& config, const std::string& classes, const TextHead& head) {
  const HeadFacts& facts = FactsOf(head.kind);
  config["architectures"] = {classes + facts.ending};
  if (facts.labelled == Labelled::kNothing) return;
  nlohmann::ordered_json id2label, label2id;
  for (size_t label = 0; label < head.labels.size(); ++label) {
    id2label[std::to_string(label)] = head.labels[label];
    label2id[head.labels[label]] = label;
  }
  config["num_labels"] = head.outputs();
  config["id2label"] = id2label;
  config["label2id"] = label2id;
  if (facts.problem_type != nullptr) config["problem_type"] = facts.problem_type;
  config[kClassifierDropout] = nullptr;
  if (head.dropout) config[kClassifierDropout] = *head.dropout;
}

void RequireObject(const nlohmann::json& config) {
  if (!config.is_object()) throw std::invalid_argument("it is not a JSON object");
}

void ReadWhole(const nlohmann::json& config, const char* key, int64_t minimum, int64_t maximum, int64_t& value) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  const std::string expected = "a whole number, " + std::to_string(minimum) + " to " + std::to_string(maximum);
  if (!found->is_number_integer()) RefuseValue(key, *found, expected);
  value = found->get<int64_t>();
  if (value < minimum || value > maximum) RefuseValue(key, *found, expected);
}

void ReadNumber(const nlohmann::json& config, const char* key, double maximum, double& value) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  if (found->is_number()) value = found->get<double>();
  if (!found->is_number() || !(value >= 0 && value <= maximum)) {
    RefuseValue(key, *found, "a number, 0 to " + nlohmann::json(maximum).dump());
  }
}

void RefuseValue(const std::string& key, const nlohmann::json& value, const std::string& expected) {
  constexpr size_t kShown = 60;
  throw std::invalid_argument(key + " is " +
                              value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, kShown) +
                              ", expected " + expected);
}

}  // namespace dtrain::models
