// The parameters are inputs of the autograd node, and are not found while the part runs again. So their gradients
// arrive in the outer backward pass, where a gradient reducer waits for them.
#include "models/activation_checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace dtrain::models {
namespace {

at::Tensor RandomState(at::Generator generator) {
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void SetRandomState(at::Generator generator, const at::Tensor& state) {
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

// The autocast settings of a thread. The cache of casted weights is switched off: casts that were made while the part
// ran without gradients would otherwise be reused in the second run.
struct Autocast {
  c10::DeviceType device;
  bool enabled;
  at::ScalarType type;

  explicit Autocast(c10::DeviceType of)
      : device(of), enabled(at::autocast::is_autocast_enabled(of)), type(at::autocast::get_autocast_dtype(of)) {}

  void Set() const {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, type);
  }
};

class AutocastAs {
 public:
  explicit AutocastAs(const Autocast& wanted)
      : before_(wanted.device), cached_(at::autocast::is_autocast_cache_enabled()) {
    wanted.Set();
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastAs() {
    at::autocast::set_autocast_cache_enabled(cached_);
    before_.Set();
  }
  AutocastAs(const AutocastAs&) = delete;
  AutocastAs& operator=(const AutocastAs&) = delete;

 private:
  Autocast before_;
  bool cached_;
};

// What the backward pass needs to repeat the run of the part.
struct Recipe : torch::CustomClassHolder {
  Recipe(Part run, std::vector<at::Tensor> of_part, const at::Tensor& x)
      : part(std::move(run)),
        parameters(std::move(of_part)),
        generator(at::globalContext().defaultGenerator(x.device())),
        random_state(RandomState(generator)),
        autocast(x.device().type()) {}

  Part part;
  std::vector<at::Tensor> parameters;
  at::Generator generator;
  at::Tensor random_state;
  Autocast autocast;
};

struct RunTwice : torch::autograd::Function<RunTwice> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const c10::intrusive_ptr<Recipe>& recipe,
                            const at::Tensor& x, at::TensorList /*parameters*/) {
    context->save_for_backward({x});
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    const AutocastAs autocast(recipe->autocast);
    return recipe->part(x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto recipe = c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    const at::AutoGradMode with_gradients(true);
    const AutocastAs autocast(recipe->autocast);
    const at::Tensor now = RandomState(recipe->generator);
    std::vector<at::Tensor> inputs = {context->get_saved_variables()[0].detach().requires_grad_(true)};
    SetRandomState(recipe->generator, recipe->random_state);
    const at::Tensor output = recipe->part(inputs[0]);
    SetRandomState(recipe->generator, now);
    inputs.insert(inputs.end(), recipe->parameters.begin(), recipe->parameters.end());
    torch::autograd::variable_list result = torch::autograd::grad({output}, inputs, gradients);
    result.insert(result.begin(), at::Tensor());  // no gradient for the recipe
    return result;
  }
};

}  // namespace

at::Tensor Checkpointed(const Part& part, const at::Tensor& x, const std::vector<at::Tensor>& parameters) {
  if (!at::GradMode::is_enabled()) return part(x);
  std::vector<at::Tensor> trained;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(trained),
               [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  return RunTwice::apply(c10::make_intrusive<Recipe>(part, trained, x), x, at::TensorList(trained));
}

}  // namespace dtrain::models
