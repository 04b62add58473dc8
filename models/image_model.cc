// Layers count into what belongs to their thread.
#include "models/image_model.h"

#include <ATen/ATen.h>

namespace dtrain::models {
namespace {

thread_local ForwardCost counted;

}  // namespace

void CountForward(const ForwardCost& layer) {
  counted.multiply_adds += layer.multiply_adds;
  counted.activation_elements += layer.activation_elements;
  counted.moved_elements += layer.moved_elements;
}

ForwardCost ImageModel::Cost(int64_t image_size) {
  const at::NoGradGuard no_grad;
  counted = {};
  forward(at::empty({1, 3, image_size, image_size}, at::TensorOptions(at::kMeta)));
  return counted;
}

}  // namespace dtrain::models
