// The kernels of a device (models/kernels), and tensors as they take them: of types that they know, contiguous and
// aligned. The trainer passes the kernels in, so that this folder does not depend on CUDA. They work on the current
// device and stream, do not wait, and throw if they cannot be started.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/kernels/cross_entropy.h"
#include "models/kernels/depthwise.h"
#include "models/kernels/excitation.h"
#include "models/kernels/layer_norm.h"
#include "models/kernels/linear_unit.h"
#include "models/kernels/norm.h"
#include "models/kernels/norm_pair.h"
#include "models/kernels/norm_pool.h"
#include "models/kernels/norm_statistics.h"
#include "models/kernels/rotation.h"
#include "models/kernels/stem.h"

namespace dtrain::models {

// Of batch normalisation together with what follows it.
struct NormKernels {
  int (*num_parts)(int64_t rows, int64_t channels);  // SumsMemory::parts
  void (*statistics)(const kernels::StatisticsArguments& arguments, kernels::Element element);
  void (*forward)(const kernels::ForwardArguments& arguments, kernels::Element element);
  void (*pool)(const kernels::PoolArguments& arguments, kernels::Element element);
  void (*sum)(const kernels::SumArguments& arguments, kernels::Element element);
  void (*backward)(const kernels::BackwardArguments& arguments, kernels::Element element);
  void (*pair_sum)(const kernels::PairSumArguments& arguments, kernels::Element element);
  void (*pair_backward)(const kernels::PairBackwardArguments& arguments, kernels::Element element);
  int (*num_image_parts)(int64_t images, int64_t pixels, int64_t channels);  // SqueezeArguments::parts
  void (*squeeze)(const kernels::SqueezeArguments& arguments, kernels::Element element);
  void (*image_sums)(const kernels::ImageSumsArguments& arguments, kernels::Element element);
  void (*add_images)(const kernels::AddImagesArguments& arguments, kernels::Element element);
};

// Of the first convolution of an image model.
struct StemKernels {
  void (*space_to_depth)(const kernels::SpaceToDepthArguments& arguments, kernels::Element element);
  int (*gradient_parts)();  // StemGradientArguments::parts; 0: there is no kernel for the gradient
  void (*gradient)(const kernels::StemGradientArguments& arguments, kernels::Element element);
};

struct DepthwiseKernels {
  int (*num_parts)(const kernels::DepthwiseShape& shape);  // DepthwiseTapsArguments::parts
  void (*convolve)(const kernels::DepthwiseArguments& arguments, kernels::Element element);
  void (*taps)(const kernels::DepthwiseTapsArguments& arguments, kernels::Element element);
};

// Of what lies between the products of a transformer or a ConvNeXt.
struct TextKernels {
  // Takes numbers for one launch from the device's default generator.
  kernels::RandomState (*random)();
  int (*norm_parts)(int64_t rows, int64_t columns);    // ColumnSums::parts of norm_gradient
  int (*column_parts)(int64_t rows, int64_t columns);  // of unit_gradient, for columns of y, and of join, for all sums
  void (*norm)(const kernels::AddNormArguments& arguments, kernels::Element element);
  void (*norm_gradient)(const kernels::AddNormGradientArguments& arguments, kernels::Element element);
  void (*unit)(const kernels::LinearUnitArguments& arguments, kernels::Element element);
  void (*unit_gradient)(const kernels::LinearUnitGradientArguments& arguments, kernels::Element element);
  void (*rotate)(const kernels::RotationArguments& arguments, kernels::Element element);
  void (*join)(const kernels::JoinArguments& arguments, kernels::Element element);
  void (*cross_entropy)(const kernels::CrossEntropyArguments& arguments, kernels::Element element);
  void (*cross_entropy_gradient)(const kernels::CrossEntropyGradientArguments& arguments, kernels::Element element);
};

// All kernels of a device. Null: there are none.
struct DeviceKernels {
  const NormKernels* norm = nullptr;
  const StemKernels* stem = nullptr;
  const DepthwiseKernels* depthwise = nullptr;
  const TextKernels* text = nullptr;

  bool operator==(const DeviceKernels&) const = default;
};

// A layer that leaves a part of training steps to a device's kernels.
class KernelUser {
 public:
  virtual ~KernelUser() = default;
  // From now on, training steps use these kernels, which must be of the parameters' device and outlive the layer.
  virtual void UseKernels(const DeviceKernels& kernels) = 0;
};

class TextKernelUser : public KernelUser {
 public:
  void UseKernels(const DeviceKernels& kernels) override { kernels_ = kernels.text; }

 protected:
  const TextKernels* kernels_ = nullptr;
};

inline constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

// Whether it is float32 or a half type.
inline bool HasElement(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

// `x` is of such a type.
inline kernels::Element ElementOf(const at::Tensor& x) {
  if (x.scalar_type() == at::kHalf) return kernels::Element::kHalf;
  return x.scalar_type() == at::kBFloat16 ? kernels::Element::kBFloat16 : kernels::Element::kFloat;
}

// Whether kernels can load 16 bytes at once from where x begins.
inline bool IsAligned(const at::Tensor& x) {
  constexpr uintptr_t kAlignment = 16;
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kAlignment == 0;
}

// Returns x, or a copy that is contiguous and aligned.
inline at::Tensor ForKernels(const at::Tensor& x, at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  const at::Tensor whole = x.contiguous(format);
  return IsAligned(whole) ? whole : whole.clone(format);
}

}  // namespace dtrain::models
