// Momentum buffers start at zero, which gives what torch.optim.SGD's "first step" does (v = g) without a special case.
#include "trainer/optim/optimizer.h"

#include <ATen/ATen.h>

#include <map>
#include <stdexcept>

namespace dtrain::optim {

Sgd::Sgd(const std::vector<NamedTensor>& parameters, const SgdOptions& options) : options_(options) {
  Group decayed{options.weight_decay, {}, {}, {}};
  Group plain{0, {}, {}, {}};
  for (const auto& [name, parameter] : parameters) {
    Group& group = options.decay_norm_and_bias || parameter.dim() > 1 ? decayed : plain;
    group.names.push_back(name);
    group.parameters.push_back(parameter);
    if (options.momentum != 0) group.momentum.push_back(at::zeros_like(parameter));
  }
  for (Group* group : {&decayed, &plain}) {
    if (!group->parameters.empty()) groups_.push_back(std::move(*group));
  }
}

void Sgd::Step(double learning_rate) {
  at::NoGradGuard no_grad;
  for (Group& group : groups_) {
    std::vector<at::Tensor> gradients;
    gradients.reserve(group.parameters.size());
    for (const at::Tensor& parameter : group.parameters) gradients.push_back(parameter.grad());
    at::_fused_sgd_(group.parameters, gradients, group.momentum, group.weight_decay, options_.momentum, learning_rate,
                    /*dampening=*/0, options_.nesterov, /*maximize=*/false, /*is_first_step=*/false);
  }
}

double Sgd::L2Term() const {
  at::NoGradGuard no_grad;
  double sum = 0;
  for (const Group& group : groups_) {
    if (group.weight_decay == 0) continue;
    const auto norms = at::stack(at::_foreach_norm(group.parameters)).to(at::kDouble);
    sum += 0.5 * group.weight_decay * norms.square().sum().item<double>();
  }
  return sum;
}

std::vector<NamedTensor> Sgd::State() const {
  std::vector<NamedTensor> state;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.momentum.size(); ++i) state.emplace_back(group.names[i], group.momentum[i]);
  }
  return state;
}

void Sgd::LoadState(const std::vector<NamedTensor>& state) {
  at::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> saved(state.begin(), state.end());
  for (auto& [name, buffer] : State()) {
    const auto found = saved.find(name);
    if (found == saved.end()) throw std::invalid_argument("no momentum for parameter " + name);
    if (found->second.sizes() != buffer.sizes())
      throw std::invalid_argument("momentum of " + name + " has another shape");
    buffer.copy_(found->second);
  }
}

}  // namespace dtrain::optim
