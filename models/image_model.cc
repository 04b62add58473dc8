#include "models/image_model.h"

#include <ATen/ATen.h>

namespace dtrain::models {

ForwardCost ImageModel::Cost(int64_t image_size) {
  const at::NoGradGuard no_grad;
  const at::Tensor image = at::empty({1, 3, image_size, image_size}, at::TensorOptions(at::kMeta));
  return CostOf([&] { forward(image); });
}

}  // namespace dtrain::models
