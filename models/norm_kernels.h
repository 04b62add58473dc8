// Batch normalisation together with what follows it (addition, ReLU, SiLU, max pooling), if a device has kernels for it
// (kernels/norm.h). In an image model, most of the time outside convolutions is spent on moving these tensors through
// memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "models/device_kernels.h"
#include "models/sync_batch_norm.h"

namespace dtrain::models {

using kernels::Activation;

// One normalisation of a training step.
struct Normalisation {
  const NormKernels* kernels = nullptr;  // of the device on which the tensors are; live until the backward pass
  at::Tensor weight = {}, bias = {};     // (C) float32
  at::Tensor finished = {};              // ZeroCounters(C): its launches count in it
  const SumOverRanks* sum = nullptr;     // null: the statistics are of this rank alone; else lives as long as `kernels`
  double epsilon = 0;
  at::Tensor mean = {}, inverse_std = {};  // (C) float32: set by FindStatistics
  at::Tensor count = {};                   // scalar float64: set by FindStatistics if there is a sum
};

// Returns the zeros on which the launches of a normalisation of this many channels count, on the device of `weight`.
at::Tensor ZeroCounters(const at::Tensor& weight);

// Returns whether the kernels support the tensor: channels last, not empty, float32 or a half type, a multiple of eight
// channels.
bool HasNormKernels(const at::Tensor& x_NCHW);

// Returns x as the kernels take it: contiguous and aligned. HasNormKernels(x) must be true.
at::Tensor ForNormKernels(const at::Tensor& x_NCHW);

// Finds mean and deviation of x = ForNormKernels(…) over all ranks' rows, in float32, and brings the running ones up to
// date.
void FindStatistics(const at::Tensor& x_NCHW, Normalisation& norm, const RunningStatistics& running);

// A tensor that two operations use. Each has a name of its own for it, so that both gradients reach the kernels, which
// add them on the way.
struct ResidualPair {
  at::Tensor main, shortcut;
};

// What follows a normalisation.
struct NormEpilogue {
  Activation activation = Activation::kNone;
  at::Tensor factors_NC = {};             // undefined: none. Constants of x's type, for kNone
  at::Tensor z_NCHW = {};                 // undefined: nothing is added
  const Normalisation* z_norm = nullptr;  // null: z is added as it is
};

// Returns activation(norm(x) [· factors] [+ z | + z_norm(z)]) for x and z = ForNormKernels(…), whose statistics have
// been found. SiLU and pooling add nothing, and z_norm needs ReLU. Differentiable in x, z, weights and biases. Sums are
// added in the same order every time.
ResidualPair Normalised(const at::Tensor& x_NCHW, const Normalisation& norm, const NormEpilogue& epilogue);

// Computes the factors (N, C) of squeeze-and-excitation from the means (N, C) of each image's channels, differentiably.
using Excitation = std::function<at::Tensor(const at::Tensor& means_NC)>;

// Returns y · excitation(means of y over the pixels) for y = SiLU(norm(x)) and x as above; y is never stored
// (kernels/excitation.h). Differentiable in x, the norm's weight and bias, and what the excitation uses. Sums are added
// in the same order every time.
at::Tensor SqueezeExcite(const at::Tensor& x_NCHW, const Normalisation& norm, const Excitation& excitation);

}  // namespace dtrain::models
