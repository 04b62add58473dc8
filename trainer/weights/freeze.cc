#include "trainer/weights/freeze.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "data/joined.h"
#include "models/registry.h"
#include "trainer/errors.h"
#include "trainer/weights/module_state.h"

namespace dtrain::weights {
namespace {

constexpr char kBackbone[] = "backbone";

bool LiesIn(const std::string& name, const std::string& module) {
  return name == module || name.starts_with(module + ".");
}

// Follows `name` as far as modules exist, and lists the modules there, one of which the user may have meant.
std::string ModulesNear(const torch::nn::Module& module, const std::string& name) {
  std::string where;
  const torch::nn::Module* deepest = &module;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '.');) {
    const auto children = deepest->named_children();
    const auto* child = children.find(part);
    if (child == nullptr) break;
    deepest = child->get();
    where += part + ".";
  }
  const auto name_of = [&](const auto& child) { return where + child.key(); };
  const std::string names = Joined(deepest->named_children(), ", ", name_of);
  return names.empty() ? where.substr(0, where.size() - 1) : names;
}

void FreezeModule(const std::string& name, const config::ModelConfig& config, const std::string& head,
                  torch::nn::Module& module) {
  const models::Head& of_model = models::HeadIn(config.name, module);
  bool found = false;
  for (auto& parameter : module.named_parameters()) {
    const bool is_meant = name == kBackbone ? !of_model.Has(parameter.key()) : LiesIn(parameter.key(), name);
    if (!is_meant) continue;
    found = true;
    parameter.value().set_requires_grad(false);
  }
  if (found) return;
  throw UsageError("--freeze=" + config.freeze + ": --model=" + config.name + " has no module '" + name + "'",
                   "choose among " + ModulesNear(module, name) +
                       ", the modules inside them (A.B), and backbone (all but " + head + ")");
}

// Whether the module has buffers (running statistics), and parameters of which none learns.
bool IsFrozenNorm(const torch::nn::Module& module) {
  const auto parameters = module.parameters(/*recurse=*/false);
  return !parameters.empty() && !module.buffers(/*recurse=*/false).empty() &&
         std::none_of(parameters.begin(), parameters.end(), [](const at::Tensor& p) { return p.requires_grad(); });
}

}  // namespace

void Freeze(const config::ModelConfig& config, const std::string& head, torch::nn::Module& module) {
  if (config.freeze.empty()) return;
  std::istringstream names(config.freeze + ",");
  for (std::string name; std::getline(names, name, ',');) FreezeModule(name, config, head, module);
  if (ParametersOf(module).empty()) {
    throw UsageError("--freeze=" + config.freeze + ": no parameter of --model=" + config.name + " is left to train",
                     "leave " + head + " out of the list");
  }
  module.apply([](torch::nn::Module& part) {
    if (IsFrozenNorm(part)) part.eval();
  });
}

}  // namespace dtrain::weights
