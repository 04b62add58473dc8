// All differences are collected before any is reported, because a wrong name is rarely the only one.
#include "trainer/weights/initial_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <span>
#include <sstream>
#include <stdexcept>

#include "data/joined.h"
#include "data/shown.h"
#include "models/layers.h"
#include "models/registry.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/text_model.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {

constexpr size_t kShownNames = 3;
constexpr size_t kShownBytes = 200;  // of each name

std::string ShapeOf(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

void Append(std::string& text, const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += (text.empty() ? "" : "; ") + title + ": " +
          Joined(std::span(names).first(std::min(kShownNames, names.size())), ", ",
                 [](const std::string& name) { return Shown(name, kShownBytes); });
  if (names.size() > kShownNames) text += " and " + std::to_string(names.size() - kShownNames) + " more";
}

// Throws UsageError if --weights_naming is not auto and contradicts the naming that was recognised.
void RequireNaming(const checkpoint::NamedTensors& weights, const std::string& said, const std::string& file) {
  const std::string found = models::NamingIn(models::ShapesOf(weights));
  if (said == "auto" || found.empty() || found == said) return;
  throw UsageError("--weights_naming=" + said + ": the names in " + file + " are those of " + found,
                   "leave it out: the naming is recognised automatically");
}

// Warns of what is no name but a sentence.
void LogLeftOut(std::vector<std::string> names, const std::string& origin) {
  const auto is_sentence = [](const std::string& name) { return name.find(' ') != std::string::npos; };
  for (const std::string& name : names) {
    if (is_sentence(name)) report::LogWarning(origin + ": " + Shown(name, 400));
  }
  std::erase_if(names, is_sentence);
  std::string text;
  Append(text, "left out of " + origin, names);
  if (!text.empty()) report::LogInfo(text);
}

std::vector<std::string> NamesIn(const checkpoint::NamedTensors& tensors, const models::Head& head) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(head.module + ".")) names.push_back(name);
  }
  return names;
}

checkpoint::NamedTensors WithoutOthers(checkpoint::NamedTensors weights, const models::Family& family,
                                       const std::string& head, std::vector<std::string>& left_out) {
  const auto is_of_others = [&](const std::string& name) {
    const auto has = [&](const models::Head& other) { return other.Has(name); };
    const auto wants = [&](const models::Head& other) { return other.module == head && has(other); };
    return std::ranges::none_of(family.heads, wants) && std::ranges::any_of(family.heads, has);
  };
  models::LeaveOut(weights, is_of_others, &left_out);
  return weights;
}

std::vector<int64_t> SizesOf(const checkpoint::NamedTensors& tensors, const std::string& name) {
  const at::Tensor found = models::Find(tensors, name);
  return found.defined() ? found.sizes().vec() : std::vector<int64_t>();
}

// Returns the rows of a classifier of the classes `given` in the order of the classes `own`; empty if these are others.
std::vector<int64_t> RowsByName(const std::vector<std::string>& given, const std::vector<std::string>& own) {
  if (!std::ranges::is_permutation(given, own)) return {};
  std::map<std::string, int64_t> row_of;
  for (const std::string& name : given) row_of.emplace(name, static_cast<int64_t>(row_of.size()));
  std::vector<int64_t> rows;
  for (const std::string& name : own) rows.push_back(row_of.at(name));
  return rows;
}

// Puts the rows of the last layer into another order. It may have more rows than classes are known.
void PutInOrder(std::vector<int64_t> rows, const models::Head& head, checkpoint::NamedTensors& weights) {
  const std::string layer = head.output_weight.substr(0, head.output_weight.rfind('.') + 1);
  for (auto& [name, tensor] : weights) {
    if (!name.starts_with(layer)) continue;
    for (auto row = static_cast<int64_t>(rows.size()); row < tensor.size(0); ++row) rows.push_back(row);
    tensor = tensor.index_select(0, at::tensor(rows));
  }
}

// Makes the classifier in `weights` one of this data's classes, as far as both are known by name. Returns the names of
// its tensors if it cannot be: `weights` lack it, or its classes are others.
std::vector<std::string> FitClassifier(const KnownHeads& classes, const models::Head& head,
                                       const checkpoint::NamedTensors& state, checkpoint::NamedTensors& weights) {
  if (head.output_weight.empty()) return {};
  const std::vector<int64_t> given = SizesOf(weights, head.output_weight), own = SizesOf(state, head.output_weight);
  const auto is_of_another_task = [&](const auto& item) {
    return head.Has(item.first) && SizesOf(state, item.first).empty();
  };
  if (given.empty()) std::erase_if(weights, is_of_another_task);
  const auto is_more = [&](const auto& item) {
    return head.Has(item.first) && !item.first.starts_with(head.module + ".");
  };
  // A classifier of words, which have no module before it, classifies something else.
  const bool is_of_words = std::ranges::any_of(state, is_more) && std::ranges::none_of(weights, is_more);
  if (given.empty() || is_of_words) {
    report::LogInfo("the given weights have no " + head.module + " of this task, which starts from random values");
    std::vector<std::string> missing;
    for (const auto& [name, tensor] : state) {
      if (head.Has(name) && (is_of_words || SizesOf(weights, name).empty())) missing.push_back(name);
    }
    return missing;
  }
  if (given.size() != 2 || own.size() != 2 || given[1] != own[1]) return {};
  const std::string anew = ": " + head.module + " starts from random values";
  if (given[0] != own[0]) {
    report::LogInfo("the given weights have " + std::to_string(given[0]) + " classes, but this run has " +
                    std::to_string(own[0]) + anew);
    return NamesIn(state, head);
  }
  const data::Classes &before = classes.of_weights, &now = classes.of_data;
  const bool are_same = before.names.empty() || now.names.empty() || before.names == now.names;
  const std::vector<int64_t> rows = are_same ? std::vector<int64_t>() : RowsByName(before.names, now.names);
  if (are_same) ChangeScale(classes.scale_of_weights, classes.scale_of_data, head.module, weights);
  if (are_same) return {};
  const std::string differ =
      "the given weights have the classes " + Describe(before) + "; this data has " + Describe(now);
  report::LogInfo(differ + (rows.empty() ? anew : ": the rows of " + head.module + " are put into its order"));
  if (rows.empty()) return NamesIn(state, head);
  ChangeScale(classes.scale_of_weights, {}, head.module, weights);
  PutInOrder(rows, head, weights);
  ChangeScale({}, classes.scale_of_data, head.module, weights);
  return {};
}

// Returns a hint that names the model of these weights, or an empty string if it is unknown or is `model`.
std::string RightModel(const checkpoint::NamedTensors& weights, const std::string& model) {
  const models::WeightShapes shapes = models::ShapesOf(weights);
  const std::string right = models::RecognisedModel(shapes);
  return right.empty() || models::FindModel(model)->fits(shapes) ? "" : "these are the weights of --model=" + right;
}

bool IsCounter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

// Some files have a scalar as a vector.
bool Fits(const at::Tensor& given, const at::Tensor& own) {
  return given.sizes() == own.sizes() || (own.dim() == 0 && given.numel() == 1);
}

// Returns the weights without those of other tasks' parts, such as the pooler of a BERT that tags words.
checkpoint::NamedTensors WithoutPassedOver(checkpoint::NamedTensors weights, const models::Head& head,
                                           const checkpoint::NamedTensors& state, const std::string& file) {
  const auto is_passed_over = [&](const std::string& name) {
    return head.Has(name) && !name.starts_with(head.module + ".") && SizesOf(state, name).empty();
  };
  std::vector<std::string> left_out;
  models::LeaveOut(weights, is_passed_over, &left_out);
  LogLeftOut(left_out, file);
  return weights;
}

// Returns the tensors of `state`, each with that of `weights` which fits it, but for those that begin `anew`. Throws
// UsageError if some do not fit; without --strict_weights, only if none of them does.
std::vector<std::pair<at::Tensor, at::Tensor>> Matched(const checkpoint::NamedTensors& weights,
                                                       const checkpoint::NamedTensors& state,
                                                       const std::vector<std::string>& anew,
                                                       const config::ModelConfig& config, const std::string& file) {
  std::vector<std::pair<at::Tensor, at::Tensor>> matched;
  std::map<std::string, at::Tensor> unused(weights.begin(), weights.end());
  for (const std::string& name : anew) unused.erase(name);
  std::vector<std::string> missing, other_shape, superfluous;
  int64_t fitting = 0;
  for (const auto& [name, tensor] : state) {
    if (std::ranges::find(anew, name) != anew.end()) continue;
    const auto found = unused.find(name);
    if (found == unused.end()) {
      if (!IsCounter(name)) missing.push_back(name);
      continue;
    }
    const bool fits = Fits(found->second, tensor);
    if (fits) matched.emplace_back(tensor, found->second);
    if (fits && !IsCounter(name)) ++fitting;
    if (!fits) other_shape.push_back(name + " " + ShapeOf(found->second) + " for " + ShapeOf(tensor));
    unused.erase(found);
  }
  for (const auto& [name, tensor] : unused) superfluous.push_back(name);

  std::string differences;
  Append(differences, "missing", missing);
  Append(differences, "of another shape", other_shape);
  Append(differences, "not in the model", superfluous);
  if (differences.empty()) return matched;
  const std::string right = RightModel(weights, config.name);
  if (fitting == 0) {
    throw UsageError(
        "nothing in " + file + " fits --model=" + config.name + ": " + differences,
        right.empty() ? "check --model, and that the file has the names of torchvision, timm or Hugging Face" : right);
  }
  const std::string what = file + " does not fit --model=" + config.name + ": " + differences;
  if (config.strict_weights) {
    throw UsageError(what,
                     right.empty()
                         ? "check --model and --num_classes, or use --strict_weights=false to pass over the differences"
                         : right);
  }
  report::LogWarning(what);
  return matched;
}

}  // namespace

checkpoint::SafetensorsContent ReadInitialWeights(const config::Config& config) {
  const WeightsPlace place = FindWeights(config.model.init_weights);
  checkpoint::SafetensorsContent content = ReadWeightsFile(place.file, config.run.weights);
  const std::string taken = TakeOffWrappers(content.tensors);
  if (!taken.empty()) report::LogInfo("the names in " + place.file + " begin with " + taken + ", which is removed");
  RequireNaming(content.tensors, config.model.weights_naming, place.file);
  try {
    RequireSameNetwork(place, content, config.model.name);
  } catch (const UsageError&) {
    // What nobody has named is the default still, if the weights do not tell a model.
    const bool is_default = !config::WasGiven(config, "model") && config.model.name == config::ModelConfig().name;
    if (!is_default || models::RecognisedImageModel(content.tensors, "") != nullptr) throw;
    throw UsageError(place.file + " is of no model of these sizes that is known here",
                     "--list_models names those that are");
  }
  content.tensors = WithOwnNames(content.tensors, config.model, place.file);
  if (!place.model_config.empty()) content.metadata[kModelConfigKey] = place.model_config;
  return content;
}

models::Model AsBuilt(models::Model model, const config::ModelConfig& config) {
  if (config.bn_eps && model.name == config.name) model.norm_epsilon = *config.bn_eps;
  return model;
}

checkpoint::NamedTensors WithOwnNames(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                      const std::string& origin) {
  const models::Family& family = models::FamilyOf(config.name);
  if (family.own_names == nullptr) return weights;
  std::vector<std::string> left_out;
  checkpoint::NamedTensors own = family.own_names(weights, AsBuilt(*models::FindModel(config.name), config), &left_out);
  LogLeftOut(left_out, origin);
  return own;
}

checkpoint::NamedTensors WithOneHead(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                     const std::string& head, const std::string& origin) {
  const models::Family& family = models::FamilyOf(config.name);
  try {
    std::vector<std::string> left_out;
    checkpoint::NamedTensors own = family.for_head == nullptr ? WithoutOthers(weights, family, head, left_out)
                                                              : family.for_head(weights, head, &left_out);
    LogLeftOut(left_out, origin);
    const auto is_untied = [&text = family.text](const auto& item) {
      return item.first.starts_with(text.decoder + ".") && std::ranges::count(text.word_rows, item.first) == 0;
    };
    if (std::ranges::none_of(own, is_untied)) return own;
    throw UsageError(origin + ": its decoder is not the word embedding, with the head's bias, as it must be here",
                     "only models whose decoder shares the word embeddings can be used to guess words");
  } catch (const std::invalid_argument& error) {
    throw UsageError(origin + ": " + error.what(), "name weights that were made for this task");
  }
}

int64_t NumClassesOf(const checkpoint::NamedTensors& weights, const std::string& model) {
  const std::vector<int64_t> sizes = SizesOf(weights, models::ClassifierWeightName(model));
  return sizes.size() == 2 ? sizes[0] : 0;
}

void ApplyInitialWeights(const checkpoint::NamedTensors& all_weights, const config::ModelConfig& config,
                         torch::nn::Module& module, const std::optional<KnownHeads>& classes) {
  at::NoGradGuard no_grad;
  const std::string file = config.init_weights.empty() ? "the checkpoint" : config.init_weights;
  const models::Head& head = models::HeadIn(config.name, module);
  const checkpoint::NamedTensors state = StateOf(module);
  checkpoint::NamedTensors weights =
      WithoutPassedOver(WithOneHead(all_weights, config, head.module, file), head, state, file);
  std::vector<std::string> anew;
  if (classes) anew = FitClassifier(*classes, head, state, weights);
  for (auto [own, given] : Matched(weights, state, anew, config, file)) own.copy_(given.reshape(own.sizes()));
}

checkpoint::NamedTensors WholeWeights(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                      const std::function<std::shared_ptr<torch::nn::Module>()>& make,
                                      const std::string& origin) {
  const models::ShapesAlone shapes;
  const auto module = make();
  const models::Head& head = models::HeadIn(config.name, *module);
  const checkpoint::NamedTensors state = StateOf(*module);
  checkpoint::NamedTensors whole = WithoutPassedOver(weights, head, state, origin);
  const bool lacks_head = NamesIn(whole, head).empty();
  Matched(whole, state, lacks_head ? NamesIn(state, head) : std::vector<std::string>(), config, origin);
  std::map<std::string, size_t> places;  // a module's own tensors come before those of its parts
  for (const auto& part : module->named_modules(/*name_prefix=*/"")) {
    const std::string prefix = part.key().empty() ? "" : part.key() + ".";
    const torch::nn::Module& own = *part.value();
    for (const auto& tensor : own.named_parameters(/*recurse=*/false))
      places.emplace(prefix + tensor.key(), places.size());
    for (const auto& tensor : own.named_buffers(/*recurse=*/false))
      places.emplace(prefix + tensor.key(), places.size());
  }
  std::ranges::stable_sort(whole, {}, [&places](const auto& item) {
    const auto place = places.find(item.first);
    return place == places.end() ? places.size() : place->second;
  });
  return whole;
}

void BeginWithInitialWeights(const config::Config& config, const data::Classes& classes, const NumberScale& scale,
                             torch::nn::Module& module) {
  const checkpoint::SafetensorsContent given = ReadInitialWeights(config);
  const data::Classes known = ClassesFrom(given.metadata, config.model.init_weights);
  const NumberScale of_weights = ScaleFrom(given.metadata, config.model.init_weights);
  ApplyInitialWeights(given.tensors, config.model, module, KnownHeads{known, classes, of_weights, scale});
}

}  // namespace dtrain::weights
