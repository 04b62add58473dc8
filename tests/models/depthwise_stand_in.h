// The kernels of depthwise convolutions on the CPU: the functions of their threads in loops.
#pragma once

#include <memory>
#include <type_traits>

#include "models/convolution.h"
#include "tests/models/norm_stand_in.h"

namespace dtrain::models::stand_in {

// What a GPU would decide. Tests change it.
inline int depthwise_rows = 4, depthwise_parts = 3;

// Calls `with` with the kernel's size and the stride as types.
template <typename With>
void ForKernel(const kernels::DepthwiseShape& shape, const With& with) {
  const auto for_stride = [&](auto kernel) {
    if (shape.stride == 1) return with(kernel, std::integral_constant<int, 1>{});
    if constexpr (kernel < 7) with(kernel, std::integral_constant<int, 2>{});
  };
  if (shape.kernel == 3) return for_stride(std::integral_constant<int, 3>{});
  if (shape.kernel == 5) return for_stride(std::integral_constant<int, 5>{});
  for_stride(std::integral_constant<int, 7>{});
}

// More threads than work, as a GPU's last block has.
inline void Convolve(const kernels::DepthwiseArguments& given, kernels::Element element) {
  kernels::DepthwiseArguments arguments = given;
  arguments.rows_per_thread = depthwise_rows;
  const kernels::DepthwiseShape& s = arguments.shape;
  const auto pairs = static_cast<unsigned>(s.channels / kernels::kPair);
  ForElement(element, [&](auto type) {
    ForKernel(s, [&](auto kernel, auto stride) {
      using T = decltype(type);
      if constexpr (stride == 2) {
        const auto strips = static_cast<unsigned>(
            kernels::NumStrips(s.images, s.height, s.width, depthwise_rows, kernels::kSpreadColumns));
        for (unsigned i = 0; arguments.backward && i < strips * pairs + 5; ++i) {
          kernels::SpreadThread<T, kernel>(arguments, i);
        }
        if (arguments.backward) return;
      }
      const auto strips = static_cast<unsigned>(kernels::NumStrips(s.images, s.out_height, s.out_width, depthwise_rows,
                                                                   kernels::Meeting<kernel, stride>::kStripColumns));
      for (unsigned i = 0; i < strips * pairs + 5; ++i) kernels::ConvolveThread<T, kernel, stride>(arguments, i);
    });
  });
}

inline void GradientOfTaps(const kernels::DepthwiseTapsArguments& given, kernels::Element element) {
  kernels::DepthwiseTapsArguments arguments = given;
  arguments.rows_per_thread = depthwise_rows;
  ForElement(element, [&](auto type) {
    ForKernel(arguments.shape, [&](auto kernel, auto stride) {
      const auto memory = std::make_unique<kernels::TapsMemory<kernel>>();
      for (int column = 0; column < kernels::TapsColumns(arguments.shape.channels); ++column) {
        for (int part = 0; part < arguments.parts; ++part) {
          for (int i = 0; i < kernels::TapsThreads(kernel); ++i) {
            kernels::KeepTapsSums(kernels::TapsThread<decltype(type), kernel, stride>(arguments, column, part, i), i,
                                  *memory);
          }
          for (int i = 0; i < kernels::TapsThreads(kernel); ++i) {
            kernels::WriteTapsSums(arguments, column, part, i, *memory);
          }
        }
      }
    });
  });
}

inline constexpr DepthwiseKernels kDepthwiseKernels = {
    .num_parts = [](const kernels::DepthwiseShape&) { return depthwise_parts; },
    .convolve = &Convolve,
    .taps = &GradientOfTaps,
};

}  // namespace dtrain::models::stand_in
