// With a row and a column of zeros before it, a kernel of k = 4m − 1 pixels has 2m × 2m squares of four pixels, which
// begin where the squares of the image do: a stride of 2 pixels is one square.
#include "models/stem_convolution.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/element_of.h"

namespace dtrain::models {
namespace {

using kernels::kDepthChannels;
using kernels::kImageChannels;
using kernels::kSquare;
using kernels::kSquareChannels;

kernels::SpaceToDepthArguments ArgumentsOf(const at::Tensor& images, int64_t kernel_size) {
  return {.from = nullptr,
          .to = nullptr,
          .images = images.size(0),
          .height = static_cast<int>(images.size(2)),
          .width = static_cast<int>(images.size(3)),
          .taps = static_cast<int>((kernel_size + 1) / kSquare)};
}

at::Tensor SquaresOf(const at::Tensor& images, int64_t kernel_size, const StemKernels& kernels) {
  kernels::SpaceToDepthArguments arguments = ArgumentsOf(images, kernel_size);
  at::Tensor squares = at::empty({arguments.images, kDepthChannels, arguments.Height(), arguments.Width()},
                                 images.options(), kChannelsLast);
  arguments.from = images.const_data_ptr();
  arguments.to = squares.mutable_data_ptr();
  kernels.space_to_depth(arguments, ElementOf(images));
  return squares;
}

at::Tensor Gradient(const at::Tensor& squares, const at::Tensor& dy, int parts, const StemKernels& kernels) {
  using namespace kernels;
  const at::Tensor partial = at::empty({parts, kStemWeights}, squares.options().dtype(at::kFloat));
  at::Tensor dweight =
      at::empty({kStemChannels, kDepthChannels, kStemTaps, kStemTaps}, squares.options(), kChannelsLast);
  kernels.gradient({.squares = squares.const_data_ptr(),
                    .dy = dy.const_data_ptr(),
                    .partial = partial.mutable_data_ptr<float>(),
                    .dweight = dweight.mutable_data_ptr(),
                    .images = dy.size(0),
                    .height = static_cast<int>(dy.size(2)),
                    .width = static_cast<int>(dy.size(3)),
                    .parts = parts},
                   ElementOf(squares));
  return dweight;
}

// The convolution of squares with a rearranged weight of a ResNet, (64, 16, 4, 4) in the same type.
struct ResNetStem : torch::autograd::Function<ResNetStem> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& weight,
                            const at::Tensor& squares, const StemKernels* kernels) {
    context->save_for_backward({squares});
    context->saved_data["kernels"] = reinterpret_cast<int64_t>(kernels);
    return at::conv2d(squares, weight);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* kernels = reinterpret_cast<const StemKernels*>(context->saved_data["kernels"].toInt());
    const at::Tensor squares = context->get_saved_variables()[0];
    const at::Tensor dy = gradients[0].to(squares.scalar_type()).contiguous(kChannelsLast);
    return {Gradient(squares, dy, kernels->gradient_parts(), *kernels), {}, {}};
  }
};

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

at::Tensor StemConvolution(const at::Tensor& images_N3HW, const at::Tensor& weight, const StemKernels& kernels) {
  const at::Tensor images = images_N3HW.contiguous(kChannelsLast);
  const at::Tensor squares = SquaresOf(images, weight.size(2), kernels);
  const at::Tensor rearranged = Rearranged(weight).to(images.scalar_type()).contiguous(kChannelsLast);
  const bool is_of_resnet = weight.size(0) == kernels::kStemChannels && rearranged.size(2) == kernels::kStemTaps;
  if (!is_of_resnet || kernels.gradient_parts() == 0) return at::conv2d(squares, rearranged);
  return ResNetStem::apply(rearranged, squares, &kernels);
}

}  // namespace dtrain::models
