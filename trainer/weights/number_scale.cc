#include "trainer/weights/number_scale.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/shallow_json.h"
#include "trainer/errors.h"

namespace dtrain::weights {
namespace {

at::Tensor NumbersOr(const std::vector<double>& values, double otherwise) {
  return values.empty() ? at::full({1}, otherwise, at::kDouble) : at::tensor(values, at::kDouble);
}

}  // namespace

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
