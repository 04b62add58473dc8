#include "models/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/element_of.h"

namespace dtrain::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LossSettings : torch::CustomClassHolder {
  LossSettings(const TextKernels& of_device, int64_t ignored_answer) : kernels(of_device), ignored(ignored_answer) {}

  const TextKernels& kernels;
  int64_t ignored;
};

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& answers,
                            const c10::intrusive_ptr<LossSettings>& settings) {
    const int64_t rows = logits.size(0);
    const at::Tensor log_sum_exp = at::empty({rows}, logits.options().dtype(at::kFloat));
    const at::Tensor loss = at::empty_like(log_sum_exp);
    settings->kernels.cross_entropy({.logits = logits.const_data_ptr(),
                                     .answers = answers.const_data_ptr<int64_t>(),
                                     .log_sum_exp = log_sum_exp.mutable_data_ptr<float>(),
                                     .loss = loss.mutable_data_ptr<float>(),
                                     .rows = rows,
                                     .columns = logits.size(1),
                                     .ignored = settings->ignored},
                                    ElementOf(logits));
    context->save_for_backward({logits, answers, log_sum_exp});
    context->saved_data["settings"] = c10::IValue::make_capsule(settings);
    return loss.sum();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto settings = c10::static_intrusive_pointer_cast<LossSettings>(context->saved_data["settings"].toCapsule());
    const auto saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &answers = saved[1], &log_sum_exp = saved[2];
    const at::Tensor dlogits = at::empty_like(logits);
    settings->kernels.cross_entropy_gradient({.logits = logits.const_data_ptr(),
                                              .answers = answers.const_data_ptr<int64_t>(),
                                              .log_sum_exp = log_sum_exp.const_data_ptr<float>(),
                                              .dloss = gradients[0].const_data_ptr<float>(),
                                              .dlogits = dlogits.mutable_data_ptr(),
                                              .rows = logits.size(0),
                                              .columns = logits.size(1),
                                              .ignored = settings->ignored},
                                             ElementOf(logits));
    return {dlogits, {}, {}};
  }
};

}  // namespace

bool HasCrossEntropyKernels(const at::Tensor& logits_RV) {
  if (logits_RV.is_meta() || logits_RV.dim() != 2 || logits_RV.numel() == 0) return false;
  const at::ScalarType type = logits_RV.scalar_type();
  return (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) && logits_RV.is_contiguous() &&
         logits_RV.size(1) % kernels::kWidth == 0 && IsAligned(logits_RV);
}

at::Tensor CrossEntropySum(const TextKernels& kernels, const at::Tensor& logits_RV, const at::Tensor& answers_R,
                           int64_t ignored) {
  TORCH_INTERNAL_ASSERT(answers_R.numel() == logits_RV.size(0));
  return CrossEntropy::apply(logits_RV, answers_R.contiguous(), c10::make_intrusive<LossSettings>(kernels, ignored));
}

}  // namespace dtrain::models
