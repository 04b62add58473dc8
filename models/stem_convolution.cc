// With a row and a column of zeros before it, a kernel of k = 4m − 1 pixels has 2m × 2m squares of four pixels, which
// begin where the squares of the image do: a stride of 2 pixels is one square.
#include "models/stem_convolution.h"

#include <ATen/ATen.h>

namespace dtrain::models {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
using kernels::kDepthChannels;
using kernels::kImageChannels;
using kernels::kSquare;
using kernels::kSquareChannels;

kernels::Element ElementOf(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf ? kernels::Element::kHalf : kernels::Element::kBFloat16;
}

kernels::SpaceToDepthArguments ArgumentsOf(const at::Tensor& images, int64_t kernel_size) {
  return {.from = nullptr,
          .to = nullptr,
          .images = images.size(0),
          .height = static_cast<int>(images.size(2)),
          .width = static_cast<int>(images.size(3)),
          .taps = static_cast<int>((kernel_size + 1) / kSquare)};
}

at::Tensor Rearranged(const at::Tensor& weight) {
  const int64_t taps = (weight.size(2) + 1) / kSquare;
  return at::constant_pad_nd(weight, {1, 0, 1, 0, 0, kSquareChannels - kImageChannels})
      .view({weight.size(0), kSquareChannels, taps, kSquare, taps, kSquare})
      .permute({0, 3, 5, 1, 2, 4})
      .reshape({weight.size(0), kDepthChannels, taps, taps});
}

}  // namespace

bool HasStemConvolution(const at::Tensor& images_N3HW, int64_t kernel_size, int64_t stride) {
  const bool half = images_N3HW.scalar_type() == at::kHalf || images_N3HW.scalar_type() == at::kBFloat16;
  return half && images_N3HW.dim() == 4 && images_N3HW.size(1) == kImageChannels && images_N3HW.numel() > 0 &&
         images_N3HW.suggest_memory_format() == kChannelsLast && !images_N3HW.requires_grad() && stride == kSquare &&
         kernel_size % 4 == 3 && ArgumentsOf(images_N3HW, kernel_size).Threads() <= INT32_MAX;
}

at::Tensor StemConvolution(const at::Tensor& images_N3HW, const at::Tensor& weight, SpaceToDepth space_to_depth) {
  const at::Tensor images = images_N3HW.contiguous(kChannelsLast);
  kernels::SpaceToDepthArguments arguments = ArgumentsOf(images, weight.size(2));
  at::Tensor squares = at::empty({arguments.images, kDepthChannels, arguments.Height(), arguments.Width()},
                                 images.options(), kChannelsLast);
  arguments.from = images.const_data_ptr();
  arguments.to = squares.mutable_data_ptr();
  space_to_depth(arguments, ElementOf(images));
  return at::conv2d(squares, Rearranged(weight));
}

}  // namespace dtrain::models
