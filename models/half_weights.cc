// A module comes before its parts, so that it can ask for weights of several parts together.
#include "models/half_weights.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dtrain::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The gradients are float32, as those of a cast by autocast.
struct Cast : torch::autograd::Function<Cast> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& copy, at::TensorList weights) {
    std::vector<int64_t> rows;
    for (const at::Tensor& weight : weights) rows.push_back(weight.size(0));
    context->saved_data["rows"] = rows;
    return copy.variable_data();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor all = gradients[0].to(at::kFloat);
    variable_list results(1);  // none for the copy
    int64_t row = 0;
    for (const int64_t rows : context->saved_data["rows"].toIntVector()) {
      results.push_back(all.narrow(0, row, rows));
      row += rows;
    }
    return results;
  }
};

}  // namespace

at::Tensor HalfWeight::Rows(int64_t count) const {
  if (!copy_.defined()) return {};
  const auto device = copy_.device().type();
  const bool fits =
      at::autocast::is_autocast_enabled(device) && at::autocast::get_autocast_dtype(device) == copy_.scalar_type();
  if (!fits) return {};
  return Cast::apply(count == kAll ? copy_ : copy_.narrow(0, 0, count), at::TensorList(weights_));
}

HalfWeights::HalfWeights(const torch::nn::Module& model, at::ScalarType type) : type_(type) {
  if (type == at::kFloat) return;
  for (const auto& part : model.modules()) {
    if (auto* user = dynamic_cast<HalfWeightUser*>(part.get())) user->UseHalfWeights(*this);
  }
  Write();
}

HalfWeight HalfWeights::CopyOf(const std::vector<at::Tensor>& weights, int64_t rows_multiple) {
  if (weights[0].scalar_type() != at::kFloat) return {};
  if (const at::Tensor part = PartOf(weights[0]); part.defined()) return {weights, part};
  int64_t rows = 0;
  for (const at::Tensor& weight : weights) rows += weight.size(0);
  const int64_t missing = (rows_multiple - rows % rows_multiple) % rows_multiple;
  at::Tensor copy;
  if (weights.size() == 1 && missing == 0) {
    copy = at::empty_like(weights[0], at::TensorOptions(type_));  // has the strides of the weight
  } else {
    std::vector<int64_t> sizes = weights[0].sizes().vec();
    sizes[0] = rows + missing;
    copy = at::zeros(sizes, weights[0].options().dtype(type_).requires_grad(false));
  }
  int64_t row = 0;
  for (const at::Tensor& weight : weights) {
    weights_.push_back(weight);
    parts_.push_back(copy.narrow(0, row, weight.size(0)));
    part_of_[weight.unsafeGetTensorImpl()] = parts_.back();
    row += weight.size(0);
  }
  return {weights, copy};
}

void HalfWeights::Write() const {
  const at::NoGradGuard no_grad;
  if (!parts_.empty()) at::_foreach_copy_(parts_, weights_);
}

at::Tensor HalfWeights::PartOf(const at::Tensor& weight) const {
  const auto found = part_of_.find(weight.unsafeGetTensorImpl());
  return found == part_of_.end() ? at::Tensor() : found->second;
}

}  // namespace dtrain::models
