// Squeeze-and-excitation of a normalised and activated tensor, which is then never stored (kernels/excitation.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "models/norm_kernels.h"

namespace dtrain::models {

// Computes the factors (N, C) from the means (N, C) of each image's channels, differentiably.
using Excitation = std::function<at::Tensor(const at::Tensor& means_NC)>;

// Returns y · excitation(means of y over the pixels) for y = SiLU(norm(x)) and x = ForNormKernels(…), whose statistics
// have been found. Differentiable in x, the norm's weight and bias, and what the excitation uses. Sums are added in the
// same order every time.
at::Tensor SqueezeExcite(const at::Tensor& x_NCHW, const Normalisation& norm, const Excitation& excitation);

}  // namespace dtrain::models
