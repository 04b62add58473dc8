#include "trainer/weights/known_classes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "data/joined.h"
#include "data/shallow_json.h"
#include "models/text_options.h"
#include "trainer/errors.h"
#include "trainer/weights/text_model.h"

namespace dtrain::weights {
namespace {

constexpr std::array<const char*, 4> kKeys = {"class_names", "num_classes", "label_offset", "text_pairs"};

std::string NameOrNone(const std::vector<std::string>& names, size_t label) {
  return label < names.size() ? "'" + names[label] + "'" : "none";
}

// Throws an exception of the JSON library if there is another value than an integer or null.
std::optional<int64_t> WholeNumber(const nlohmann::json& json) {
  if (json.is_null()) return std::nullopt;
  if (!json.is_number_integer()) throw nlohmann::json::type_error::create(302, "no whole number", &json);
  return json.get<int64_t>();
}

// Returns the names of Hugging Face's id2label, or else timm's label_names; empty if there is neither, or if they do
// not tell the classes apart: by numbers (LABEL_0), or with a name twice, as ImageNet has two cranes.
std::vector<std::string> LabelsIn(const std::string& model_config) {
  std::vector<std::string> names;
  try {
    const nlohmann::json config = ParseShallow(model_config);
    if (!config.contains("id2label")) {
      const nlohmann::json in_part = config.value("pretrained_cfg", nlohmann::json::object());
      names = config.contains("label_names") ? config["label_names"] : in_part.at("label_names");
    } else {
      const nlohmann::json& labels = config["id2label"];
      for (size_t label = 0; label < labels.size(); ++label) names.push_back(labels.at(std::to_string(label)));
    }
  } catch (const nlohmann::json::exception&) {  // what the model needs is reported by those who need it
    return {};
  }
  const bool are_distinct = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  const bool are_names = names != models::NumberedLabels(static_cast<int64_t>(names.size()));
  return are_distinct && are_names ? names : std::vector<std::string>();
}

at::Tensor NumbersOr(const std::vector<double>& values, double otherwise) {
  return values.empty() ? at::full({1}, otherwise, at::kDouble) : at::tensor(values, at::kDouble);
}

}  // namespace

nlohmann::json ToJson(const data::Classes& classes) {
  nlohmann::json json = {{"class_names", classes.names}, {"num_classes", classes.count}, {"label_offset", nullptr}};
  if (classes.label_offset) json["label_offset"] = *classes.label_offset;
  if (classes.pairs) json["text_pairs"] = *classes.pairs;
  return json;
}

data::Classes ClassesFromJson(const nlohmann::json& json, const std::string& where) {
  data::Classes classes;
  if (json.is_null()) return classes;
  try {
    classes.names = json.at("class_names").get<std::vector<std::string>>();
    classes.count = WholeNumber(json.at("num_classes")).value_or(0);
    classes.label_offset = WholeNumber(json.at("label_offset"));
    const nlohmann::json pairs = json.value("text_pairs", nlohmann::json());  // newer than the others
    if (!pairs.is_null()) classes.pairs = pairs.get<bool>();
    const bool fits = classes.names.empty() || classes.count == static_cast<int64_t>(classes.names.size());
    if (fits && classes.count >= 0) return classes;
  } catch (const nlohmann::json::exception&) {  // reported below
  }
  throw StorageError("the list of classes in " + where + " is damaged", "take another checkpoint or file of weights");
}

void AddTo(checkpoint::Metadata& metadata, const data::Classes& classes) {
  const nlohmann::json json = ToJson(classes);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null()) metadata[key] = value.dump();
  }
}

data::Classes ClassesFrom(const checkpoint::Metadata& metadata, const std::string& where) {
  if (!metadata.contains(kKeys[0])) {  // the file of another program
    const auto config = metadata.find(kModelConfigKey);
    std::vector<std::string> names = config == metadata.end() ? std::vector<std::string>() : LabelsIn(config->second);
    const auto count = static_cast<int64_t>(names.size());
    return {.names = std::move(names), .count = count};
  }
  nlohmann::json json;
  for (const char* key : kKeys) {
    const auto found = metadata.find(key);
    json[key] = found == metadata.end() ? nlohmann::json() : nlohmann::json::parse(found->second, nullptr, false);
  }
  return ClassesFromJson(json, where);
}

void RequireSameNames(const data::Classes& checkpoint, const data::Classes& now) {
  if (checkpoint.names.empty() || now.names.empty()) return;
  const std::vector<std::string>&before = checkpoint.names, &after = now.names;
  if (before == after) return;
  const auto label = static_cast<size_t>(std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first -
                                         before.begin());
  throw DataError("the checkpoint was trained on " + std::to_string(before.size()) + " classes, but this data has " +
                      std::to_string(after.size()) + "; the first difference is label " + std::to_string(label) + ": " +
                      NameOrNone(before, label) + " then, " + NameOrNone(after, label) + " now",
                  "the same label would mean a different class: use data with the same class names, or start anew with "
                  "--resume=none or another --run_dir");
}

std::string Describe(const data::Classes& classes) {
  constexpr size_t kListed = 5;
  return std::to_string(classes.count) +
         (classes.names.empty() ? ", without names" : ": " + FirstOf(classes.names, kListed));
}

std::string ClassesText(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

std::string ToText(const NumberScale& scale) {
  return nlohmann::json{{"means", scale.means}, {"deviations", scale.deviations}}.dump();
}

NumberScale ScaleFrom(const checkpoint::Metadata& metadata, const std::string& where) {
  const auto found = metadata.find(kNumberScaleKey);
  if (found == metadata.end()) return {};
  try {
    const nlohmann::json json = ParseShallow(found->second);
    const NumberScale scale{json.at("means").get<std::vector<double>>(),
                            json.at("deviations").get<std::vector<double>>()};
    const bool fits = scale.means.size() == scale.deviations.size();
    if (fits && std::ranges::all_of(scale.deviations, [](double one) { return one > 0; })) return scale;
  } catch (const nlohmann::json::exception&) {  // reported below
  }
  throw StorageError("the scale of the numbers in " + where + " is damaged",
                     "take another checkpoint or file of weights");
}

void RequireScaleOf(int64_t outputs, const NumberScale& scale) {
  const auto means = static_cast<int64_t>(scale.means.size());
  if (means == 0 || means == outputs) return;
  throw StorageError(
      "the weights predict " + std::to_string(outputs) + " numbers, but have the scale of " + std::to_string(means),
      "take another checkpoint or file of weights");
}

void ChangeScale(const NumberScale& from, const NumberScale& to, const std::string& head,
                 checkpoint::NamedTensors& weights) {
  if (from == to) return;
  const at::Tensor unit = NumbersOr(to.deviations, 1), factor = NumbersOr(from.deviations, 1) / unit;
  const at::Tensor shift = (NumbersOr(from.means, 0) - NumbersOr(to.means, 0)) / unit;
  for (auto& [name, weight] : weights) {
    if (!name.starts_with(head + ".") || !name.ends_with(".weight") || weight.dim() != 2) continue;  // a norm has one
    for (const NumberScale* scale : {&from, &to}) RequireScaleOf(weight.size(0), *scale);
    weight = (weight.to(at::kDouble) * factor.unsqueeze(1)).to(weight.scalar_type());
    const std::string of_bias = name.substr(0, name.rfind('.')) + ".bias";
    for (auto& [other, bias] : weights) {
      if (other == of_bias) bias = (bias.to(at::kDouble) * factor + shift).to(bias.scalar_type());
    }
  }
}

}  // namespace dtrain::weights
