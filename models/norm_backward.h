// What norm_kernels.cc and excitation.cc share: a normalisation's tensors as the kernels take them, and the end of its
// backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/norm_kernels.h"

namespace dtrain::models {

int64_t RowsOf(const at::Tensor& x_NCHW);
kernels::NormOfChannels PointersOf(const Normalisation& norm);
// Returns the scale for x's images; none if `factors_NC` is undefined.
kernels::Scale ScaleOf(const at::Tensor& factors_NC, const at::Tensor& x_NCHW);

// Partial sums that live as long as this object: memory that a stream's later kernels may take, once those launched
// before are done.
struct PartialSums {
  PartialSums(const Normalisation& norm, int64_t rows);
  kernels::SumsMemory memory();

  int parts;
  at::Tensor floats, finished;
};

// Sums over all of this rank's rows.
struct GradientSums {
  explicit GradientSums(const Normalisation& norm);

  at::Tensor both;            // (2, C)
  at::Tensor dbias, dweight;  // its two rows
};

// Runs the last kernel of the backward pass and returns dx, which is written to `dx` if that is defined. `gradient` is
// what the sums were found from.
at::Tensor InputGradient(const at::Tensor& x_NCHW, const Normalisation& norm,
                         const kernels::GradientArguments& gradient, const GradientSums& sums, at::Tensor dx = {});

}  // namespace dtrain::models
