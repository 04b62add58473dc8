// Compares the kernels of batch normalisation, a device's or their stand-ins on the CPU, with ATen in float64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "models/norm_kernels.h"

namespace dtrain::models {

inline constexpr double kNormEpsilon = 1e-5, kNormMomentum = 0.1;
inline constexpr auto kLast = at::MemoryFormat::ChannelsLast;

// Returns a leaf in float64 on the CPU.
inline at::Tensor Exactly(const at::Tensor& tensor) { return tensor.detach().cpu().to(at::kDouble).requires_grad_(); }

// A norm with parameters and running statistics of its own, in float32, and a copy of all in float64 for ATen.
struct Norm {
  explicit Norm(int64_t channels, const NormKernels& of_device, at::Device device = at::kCPU)
      : kernels(of_device),
        weight((at::rand({channels}) + 0.5).to(device).requires_grad_()),
        bias(at::randn({channels}).to(device).requires_grad_()),
        weight64(Exactly(weight)),
        bias64(Exactly(bias)) {}

  Normalisation On(const at::Tensor& x) const {
    Normalisation norm{
        .kernels = &kernels, .weight = weight, .bias = bias, .finished = ZeroCounters(weight), .epsilon = kNormEpsilon};
    FindStatistics(x.detach(), norm, running);
    return norm;
  }
  at::Tensor Exact(const at::Tensor& x64) const {
    return at::batch_norm(x64, weight64, bias64, {}, {}, true, kNormMomentum, kNormEpsilon, false);
  }

  const NormKernels& kernels;
  at::Tensor weight, bias, weight64, bias64;
  RunningStatistics running = {at::zeros_like(weight), at::ones_like(weight),
                               at::zeros({}, weight.options().dtype(at::kLong)), kNormMomentum};
};

enum class Adds { kNothing, kTensor, kNorm, kTensorToScaled };

struct NormCase {
  int64_t images, channels, height, width;
  Activation activation;
  Adds adds;
  bool two_gradients;
};

// Returns the relative distance of two tensors. A NaN is far from everything.
inline double Distance(const at::Tensor& result, const at::Tensor& wanted) {
  const at::Tensor exact = wanted.cpu().to(at::kDouble);
  const double scale = std::max(exact.norm().item<double>(), 1e-6);
  const double distance = (result.cpu().to(at::kDouble) - exact).norm().item<double>() / scale;
  return std::isnan(distance) ? 1e9 : distance;
}

inline double ToleranceOf(at::ScalarType type) { return type == at::kFloat ? 2e-6 : type == at::kHalf ? 2e-3 : 2e-2; }

inline std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  const std::vector<std::pair<Activation, Adds>> kinds = {
      {Activation::kNone, Adds::kNothing},     {Activation::kNone, Adds::kTensor},
      {Activation::kRelu, Adds::kNothing},     {Activation::kRelu, Adds::kTensor},
      {Activation::kRelu, Adds::kNorm},        {Activation::kSilu, Adds::kNothing},
      {Activation::kReluPool, Adds::kNothing}, {Activation::kNone, Adds::kTensorToScaled}};
  for (const auto& [activation, adds] : kinds) {
    for (const bool two : {false, true}) {
      cases.push_back({2, 64, 7, 7, activation, adds, two});
      cases.push_back({3, 24, 5, 6, activation, adds, two});  // three threads per row
      cases.push_back({1, 8, 3, 3, activation, adds, two});   // with only two rows, dx would be nothing but rounding
      cases.push_back({2, 72, 3, 1, activation, adds, two});  // the second column of blocks is not full
    }
    cases.push_back({1, 2048, 2, 3, activation, adds, false});
    cases.push_back({1, 16, 1, 1, activation, adds, true});  // one row
  }
  return cases;
}

// Runs the backward passes of a pair, of which one or both are used, and of the exact result, with what `gradient`
// draws.
template <typename Gradient>
void RunBackward(const ResidualPair& y, const at::Tensor& y64, bool uses_both, const Gradient& gradient) {
  std::vector<at::Tensor> outputs = {y.main}, gradients = {gradient()};
  at::Tensor dy64 = gradients[0].cpu().to(at::kDouble);
  if (uses_both) {
    outputs.push_back(y.shortcut);
    gradients.push_back(gradient());
    dy64 = dy64 + gradients[1].cpu().to(at::kDouble);
  }
  torch::autograd::backward(outputs, gradients);
  y64.backward(dy64);
}

// ReLU and max pooling of what the kernels' type makes of u. Which of two values that it rounds alike is the larger one
// is left to the type.
inline at::Tensor ExactPool(const at::Tensor& u64, at::ScalarType type) {
  const at::Tensor places =
      std::get<1>(at::max_pool2d_with_indices(u64.detach().relu().to(type).to(at::kDouble), 3, 2, 1));
  return u64.relu().flatten(2).gather(2, places.flatten(2)).view(places.sizes());
}

inline at::Tensor ExactActivation(const at::Tensor& u64, Activation activation, at::ScalarType type) {
  if (activation == Activation::kNone) return u64;
  if (activation == Activation::kSilu) return at::silu(u64);
  return activation == Activation::kRelu ? u64.relu() : ExactPool(u64, type);
}

// Compares the kernels' results for a case with ATen's in float64 on the CPU.
inline void Compare(const NormCase& c, at::ScalarType type, const NormKernels& kernels, at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.images << "x" << c.channels << "x" << c.height << "x" << c.width
                                  << " activation " << static_cast<int>(c.activation) << " adds "
                                  << static_cast<int>(c.adds) << " gradients " << 1 + c.two_gradients);
  const auto random = [&](double scale, double offset) {
    const at::Tensor values = at::randn({c.images, c.channels, c.height, c.width}) * scale + offset;
    return values.contiguous(kLast).to(type).to(device).requires_grad_();
  };
  const at::Tensor x = random(2, 3), z = random(1, -1), x64 = Exactly(x), z64 = Exactly(z);
  const Norm norm(c.channels, kernels, device), z_norm(c.channels, kernels, device);
  const Normalisation of_x = norm.On(x);
  ResidualPair y;
  at::Tensor u64 = norm.Exact(x64);
  if (c.adds == Adds::kNorm) {
    const Normalisation of_z = z_norm.On(z);
    y = Normalised(x, of_x, {.activation = c.activation, .z_NCHW = z, .z_norm = &of_z});
    u64 = u64 + z_norm.Exact(z64);
  } else {
    NormEpilogue epilogue{.activation = c.activation};
    if (c.adds == Adds::kTensorToScaled) {
      epilogue.factors_NC = at::randn({c.images, c.channels}).to(type).to(device);
      u64 = u64 * epilogue.factors_NC.cpu().to(at::kDouble).view({c.images, c.channels, 1, 1});
    }
    if (c.adds != Adds::kNothing) {
      epilogue.z_NCHW = z;
      u64 = u64 + z64;
    }
    y = Normalised(x, of_x, epilogue);
  }
  const at::Tensor y64 = ExactActivation(u64, c.activation, type);
  EXPECT_EQ(y.main.scalar_type(), type);
  EXPECT_TRUE(y.main.is_contiguous(kLast));
  EXPECT_EQ(y.main.data_ptr(), y.shortcut.data_ptr());
  const double tolerance = ToleranceOf(type);
  EXPECT_LE(Distance(y.main.detach(), y64.detach()), tolerance);

  // Elements whose sign depends on rounding are not compared.
  const at::Tensor same_sign = y64.detach().gt(0).eq(y.main.detach().cpu().gt(0));
  EXPECT_GE(same_sign.to(at::kFloat).mean().item<double>(), 0.98);
  RunBackward(y, y64, c.two_gradients,
              [&] { return (at::randn(y64.sizes()) * same_sign).to(type).contiguous(kLast).to(device); });
  // With a single row, dx is 0 but for rounding, times 1/√ε.
  if (x.numel() > c.channels) {
    EXPECT_LE(Distance(x.grad(), x64.grad()), 5 * tolerance);
  }
  EXPECT_LE(Distance(norm.weight.grad(), norm.weight64.grad()), 5 * tolerance);
  EXPECT_LE(Distance(norm.bias.grad(), norm.bias64.grad()), 5 * tolerance);
  EXPECT_EQ(z.grad().defined(), c.adds != Adds::kNothing);
  if (c.adds != Adds::kNothing) {
    EXPECT_LE(Distance(z.grad(), z64.grad()), 5 * tolerance);
  }
  if (c.adds == Adds::kNorm) {
    EXPECT_LE(Distance(z_norm.weight.grad(), z_norm.weight64.grad()), 5 * tolerance);
    EXPECT_LE(Distance(z_norm.bias.grad(), z_norm.bias64.grad()), 5 * tolerance);
  }
}

// Compares squeeze-and-excitation after SiLU with ATen in float64.
inline void CompareExcited(const NormCase& c, at::ScalarType type, const NormKernels& kernels, at::Device device) {
  SCOPED_TRACE(testing::Message() << type << " " << c.images << "x" << c.channels << "x" << c.height << "x" << c.width);
  const at::Tensor x = (at::randn({c.images, c.channels, c.height, c.width}) * 2 + 3)
                           .contiguous(kLast)
                           .to(type)
                           .to(device)
                           .requires_grad_();
  const at::Tensor x64 = Exactly(x);
  const Norm norm(c.channels, kernels, device);
  const auto excitation = [&](const at::Tensor& means, const at::Tensor& by) { return at::sigmoid(means * by - 1); };
  const at::Tensor by = (at::randn({c.channels}) * 3).to(type).to(device).requires_grad_(), by64 = Exactly(by);
  const at::Tensor y = SqueezeExcite(x, norm.On(x), [&](const at::Tensor& means) {
    EXPECT_EQ(means.sizes(), at::IntArrayRef({c.images, c.channels}));
    EXPECT_EQ(means.scalar_type(), type);
    return excitation(means, by);
  });
  const at::Tensor silu64 = at::silu(norm.Exact(x64));
  const at::Tensor y64 = silu64 * excitation(silu64.mean({2, 3}), by64).view({c.images, c.channels, 1, 1});
  EXPECT_EQ(y.scalar_type(), type);
  EXPECT_TRUE(y.is_contiguous(kLast));
  const double tolerance = ToleranceOf(type);
  EXPECT_LE(Distance(y.detach(), y64.detach()), tolerance);
  const at::Tensor dy = at::randn(y64.sizes()).to(type).contiguous(kLast).to(device);
  y.backward(dy);
  y64.backward(dy.cpu().to(at::kDouble));
  EXPECT_LE(Distance(x.grad(), x64.grad()), 5 * tolerance);
  EXPECT_LE(Distance(by.grad(), by64.grad()), 5 * tolerance);
  EXPECT_LE(Distance(norm.weight.grad(), norm.weight64.grad()), 5 * tolerance);
  EXPECT_LE(Distance(norm.bias.grad(), norm.bias64.grad()), 5 * tolerance);
}

inline std::vector<NormCase> ExcitedCases() {
  std::vector<NormCase> cases;
  for (const auto& [images, channels, height, width] :
       {std::array{2, 64, 7, 7}, {3, 24, 5, 6}, {5, 8, 3, 3}, {37, 72, 3, 1}, {1, 1152, 2, 3}, {2, 16, 19, 17}}) {
    cases.push_back({images, channels, height, width, Activation::kSilu, Adds::kNothing, false});
  }
  return cases;
}

}  // namespace dtrain::models
