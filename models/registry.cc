// A family is a row here and a file of its own. Nothing else asks which family a model is of.
#include "models/registry.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace dtrain::models {

// Each is in the file of its networks.
Family ConvNextFamily();
Family EfficientNetFamily();
Family ResNetFamily();
Family ResNetV2Family();
Family VisionTransformerFamily();
Family BertFamily();
Family CamembertFamily();
Family DistilBertFamily();
Family ModernBertFamily();
Family RobertaFamily();
Family XlmRobertaFamily();

namespace {

const Head& HeadFor(HeadKind kind, const std::string& model) {
  const bool labels = FactsOf(kind).labelled != Labelled::kNothing;
  return *std::ranges::find_if(FamilyOf(model).heads, [=](const Head& head) {
    return head.kind ? head.kind == kind : head.output_weight.empty() != labels;
  });
}

}  // namespace

std::string FieldsWith(const std::vector<std::pair<const char*, nlohmann::json>>& values) {
  nlohmann::json fields;
  for (const auto& [field, value] : values) fields[field] = nlohmann::json::array({value});
  return fields.dump();
}

const std::vector<Family>& Families() {
  // clang-format off
  static const std::vector<Family> table = {
      ConvNextFamily(),
      EfficientNetFamily(),
      ResNetFamily(),
      ResNetV2Family(),
      VisionTransformerFamily(),
      BertFamily(),
      DistilBertFamily(),
      ModernBertFamily(),
      RobertaFamily(),  // before those that share its names
      CamembertFamily(),
      XlmRobertaFamily(),
  };
  // clang-format on
  return table;
}

const Family* FindFamily(const std::string& model) {
  for (const Family& family : Families()) {
    if (std::ranges::find(family.models, model, &Model::name) != family.models.end()) return &family;
  }
  return nullptr;
}

const Model* FindModel(const std::string& model) {
  const Family* family = FindFamily(model);
  return family == nullptr ? nullptr : &*std::ranges::find(family->models, model, &Model::name);
}

const Family& FamilyOf(const std::string& model) {
  if (const Family* family = FindFamily(model)) return *family;
  throw std::out_of_range("there is no model '" + model + "'");
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const Family& family : Families()) {
    for (const Model& model : family.models) names.push_back(model.name);
  }
  return names;
}

std::string Description(const std::string& model) {
  const Family& family = FamilyOf(model);
  const Model& described = *FindModel(model);
  if (family.input == Input::kText) return described.description;
  return described.description + ", for images of " + std::to_string(described.image_size) + " pixels";
}

bool ReadsText(const std::string& name) {
  const Family* family = FindFamily(name);
  return family != nullptr && family->input == Input::kText;
}

std::string TextModelOfType(const std::string& model_type) {
  for (const Family& family : Families()) {
    if (family.input == Input::kText && family.text.model_type == model_type) return family.models.front().name;
  }
  return "";
}

const Head& HeadIn(const std::string& model, const torch::nn::Module& module) {
  const Family& family = FamilyOf(model);
  const auto parameters = module.named_parameters();
  for (const Head& head : family.heads) {
    const auto is_in_head = [&head](const auto& item) {
      return head.output_weight.empty() ? item.key().starts_with(head.module + ".") : item.key() == head.output_weight;
    };
    if (std::ranges::any_of(parameters, is_in_head)) return head;
  }
  static const Head none = {};
  return none;
}

std::map<std::string, int64_t> LayersBelowHead(const std::string& model, const torch::nn::Module& module) {
  const auto& layer_of = FamilyOf(model).layer_of;
  const Head& head = HeadIn(model, module);
  std::map<std::string, int64_t> places;
  std::set<int64_t> layers;
  for (const auto& item : module.named_parameters()) {
    const int64_t place = layer_of == nullptr || head.Has(item.key()) ? kWithHead : layer_of(item.key());
    if (place < kTopLayer) layers.insert(place);
    places[item.key()] = place;
  }
  for (auto& [name, place] : places)
    place = place == kWithHead ? 0 : std::max<int64_t>(1, std::distance(layers.lower_bound(place), layers.end()));
  return places;
}

std::string HeadName(const std::string& model, HeadKind kind) {
  return kind == HeadKind::kNone ? "" : HeadFor(kind, model).module;
}

std::string ClassifierName(const std::string& model) { return HeadFor(HeadKind::kClasses, model).module; }

std::string ClassifierWeightName(const std::string& model) { return HeadFor(HeadKind::kClasses, model).output_weight; }

TextHead ShownHead(const WeightShapes& weights, const std::string& model) {
  const Family& family = FamilyOf(model);
  const auto shown = [](int64_t outputs, std::optional<HeadKind> kind) {
    return TextHead{kind.value_or(outputs == 1 ? HeadKind::kNumber : HeadKind::kClasses), NumberedLabels(outputs)};
  };
  for (const Head& head : family.heads) {
    const int64_t outputs = head.output_weight.empty() ? 0 : RowsNamed(weights, head.output_weight);
    if (outputs == 0) continue;
    const auto is_more = [&](const auto& item) {
      const std::string prefix = family.text.backbone + ".";  // which weights of a network without a head leave out
      const std::string& more = head.more.front();
      const bool is_inner = more.starts_with(prefix);
      return item.first.find((is_inner ? more.substr(prefix.size()) : more) + ".") != std::string::npos;
    };
    const bool lacks_more = !head.more.empty() && std::ranges::none_of(weights, is_more);
    return shown(outputs, lacks_more ? HeadKind::kTokens : head.kind);
  }
  const int64_t outputs = family.text.other_outputs == nullptr ? 0 : family.text.other_outputs(weights);
  return outputs == 0 ? TextHead() : shown(outputs, {});
}

std::string RecognisedModel(const WeightShapes& weights) {
  for (const Family& family : Families()) {
    const auto found = std::ranges::find_if(family.models, [&](const Model& model) { return model.fits(weights); });
    if (found != family.models.end()) return found->name;
  }
  return "";
}

std::string RecognisedModel(const NamedWeights& weights) { return RecognisedModel(ShapesOf(weights)); }

const Model* RecognisedImageModel(const NamedWeights& weights, const std::string& preferred) {
  const Model* found = nullptr;
  size_t changed = 0;
  for (const Family& family : Families()) {
    if (family.input != Input::kImages) continue;
    for (const Model& model : family.models) {
      if (found != nullptr && changed == 0 && model.name != preferred) continue;
      std::vector<std::string> left_out;  // also positions, if they become those of another grid
      const NamedWeights own = family.own_names == nullptr ? weights : family.own_names(weights, model, &left_out);
      if (!model.fits(ShapesOf(own))) continue;
      if (model.name == preferred) return &model;
      if (found == nullptr || left_out.size() < changed) std::tie(found, changed) = std::pair(&model, left_out.size());
    }
  }
  return found;
}

std::string NamingIn(const WeightShapes& weights) {
  for (const Family& family : Families()) {
    const std::string naming = family.naming_of == nullptr ? "" : family.naming_of(weights);
    if (!naming.empty()) return naming;
  }
  return "";
}

std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options) {
  const Model* model = FindModel(name);
  if (model == nullptr || !model->make) throw std::out_of_range("there is no image model '" + name + "'");
  return model->make(options);
}

}  // namespace dtrain::models
