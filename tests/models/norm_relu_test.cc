// Runs the kernels' threads in loops and compares with ATen: values, gradients, running statistics, and a whole ResNet.
// The numbers of threads include more than there are rows and such that are no multiple of a row's.
#include "models/norm_relu.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "models/layers.h"
#include "models/resnet.h"

namespace dtrain::models {
namespace {

constexpr double kNormEpsilon = 1e-5, kNormMomentum = 0.1;
int64_t num_threads = 1000;

// Calls `with` with a value of the type that `element` names.
template <typename With>
void ForElement(kernels::Element element, const With& with) {
  if (element == kernels::Element::kFloat) return with(float{});
  if (element == kernels::Element::kHalf) return with(c10::Half{});
  with(c10::BFloat16{});
}

void Forward(const kernels::ForwardArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    for (int64_t thread = 0; thread < num_threads; ++thread) {
      kernels::ForwardThread<decltype(type)>(arguments, thread, num_threads);
    }
  });
}

constexpr int64_t kPartialSums = 3;

void Sum(const kernels::BackwardArguments& arguments, kernels::Element element, float* partial) {
  ForElement(element, [&](auto type) {
    for (int64_t part = 0; part < kPartialSums; ++part) {
      for (int64_t channel = 0; channel < arguments.channels; channel += kernels::kWidth) {
        const auto sums = kernels::SumThread<decltype(type)>(arguments, part, kPartialSums, channel);
        for (int i = 0; i < kernels::kWidth; ++i) {
          partial[2 * part * arguments.channels + channel + i] = sums.dy[i];
          partial[(2 * part + 1) * arguments.channels + channel + i] = sums.dy_centred[i];
        }
      }
    }
  });
}

void Backward(const kernels::BackwardArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    for (int64_t thread = 0; thread < num_threads; ++thread) {
      kernels::BackwardThread<decltype(type)>(arguments, thread, num_threads);
    }
  });
}

std::tuple<at::Tensor, at::Tensor> Statistics(const at::Tensor& x, const at::Tensor& running_mean,
                                              const at::Tensor& running_var, double momentum, double epsilon) {
  const auto [variance, mean] = at::var_mean(x.to(at::kFloat), {0, 2, 3}, 0);
  const auto count = static_cast<double>(x.numel() / x.size(1));
  at::Tensor(running_mean).lerp_(mean, momentum);
  at::Tensor(running_var).lerp_(variance * (count / (count - 1)), momentum);
  return {mean, at::rsqrt(variance + epsilon)};
}

constexpr NormReluDevice kStandIn = {
    .forward = &Forward,
    .num_partial_sums = [](int64_t, int64_t) { return kPartialSums; },
    .sum = &Sum,
    .backward = &Backward,
    .statistics = &Statistics,
};

struct Case {
  int64_t images, channels, height, width;
  at::ScalarType type;
  bool adds;
};

// Returns the relative distance of two tensors. A NaN is far from everything.
double Distance(const at::Tensor& result, const at::Tensor& wanted) {
  const at::Tensor exact = wanted.to(at::kDouble);
  const double scale = std::max(exact.norm().item<double>(), 1e-12);
  const double distance = (result.to(at::kDouble) - exact).norm().item<double>() / scale;
  return std::isnan(distance) ? 1e9 : distance;
}

double ToleranceOf(at::ScalarType type) { return type == at::kFloat ? 2e-6 : type == at::kHalf ? 2e-3 : 2e-2; }

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const bool adds : {false, true}) {
      cases.push_back({2, 64, 7, 7, type, adds});
      cases.push_back({3, 24, 5, 3, type, adds});  // 24 channels: three threads per row
      // the fewest channels; with only two rows, dx would be nothing but rounding
      cases.push_back({1, 8, 3, 3, type, adds});
      cases.push_back({2, 256, 3, 1, type, adds});
    }
  }
  return cases;
}

TEST(NormRelu, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  at::manual_seed(1);
  for (const Case& c : Cases()) {
    for (const int64_t threads : {37, 100, 5000}) {
      num_threads = std::max(threads, c.channels / kernels::kWidth);
      const auto leaf = [&](const at::Tensor& t) { return t.detach().clone().requires_grad_(); };
      const at::Tensor shape =
          at::randn({c.images, c.channels, c.height, c.width}).contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor x = leaf((shape * 2 + 3).to(c.type)), z = leaf(at::randn_like(shape).to(c.type));
      const at::Tensor weight = leaf(at::rand({c.channels}) + 0.5), bias = leaf(at::randn({c.channels}));
      const at::Tensor dy = at::randn_like(shape).to(c.type);
      const auto exact = [](const at::Tensor& t) { return t.detach().to(at::kDouble).requires_grad_(); };
      const at::Tensor x64 = exact(x), z64 = exact(z), weight64 = exact(weight), bias64 = exact(bias);

      const auto [mean, inverse_std] =
          Statistics(x.detach(), at::zeros({c.channels}), at::ones({c.channels}), kNormMomentum, kNormEpsilon);
      const at::Tensor y = NormRelu(kStandIn, x, c.adds ? z : at::Tensor(), weight, bias, mean, inverse_std);
      at::Tensor y64 = at::batch_norm(x64, weight64, bias64, {}, {}, true, kNormMomentum, kNormEpsilon, false);
      if (c.adds) y64 = y64 + z64;
      y64 = y64.relu();
      EXPECT_EQ(y.scalar_type(), c.type);
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
      const double tolerance = ToleranceOf(c.type);
      EXPECT_LE(Distance(y, y64), tolerance);

      // Elements whose sign depends on rounding are not compared.
      const at::Tensor same_sign = y64.detach().gt(0).eq(y.detach().gt(0));
      EXPECT_GE(same_sign.to(at::kFloat).mean().item<double>(), 0.99);
      const at::Tensor compared = dy * same_sign;
      y.backward(compared);
      y64.backward(compared.to(at::kDouble));
      EXPECT_LE(Distance(x.grad(), x64.grad()), 5 * tolerance) << c.channels << " " << c.type << " " << threads;
      EXPECT_LE(Distance(weight.grad(), weight64.grad()), 5 * tolerance);
      EXPECT_LE(Distance(bias.grad(), bias64.grad()), 5 * tolerance);
      EXPECT_EQ(z.grad().defined(), c.adds);
      if (c.adds) {
        EXPECT_TRUE(at::equal(z.grad(), compared * y.detach().gt(0)));
      }
    }
  }
}

TEST(NormRelu, ANaNIsSeen) {
  at::Tensor x = at::randn({2, 8, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  x[0][3][1][1] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor ones = at::ones({8});
  const at::Tensor y = NormRelu(kStandIn, x, {}, ones, ones, at::zeros({8}), ones);
  EXPECT_TRUE(y[0][3][1][1].isnan().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 1);
}

TEST(NormRelu, TakesWhatTheKernelsCan) {
  EXPECT_TRUE(CanNormRelu(at::zeros({1, 8, 2, 2})));
  EXPECT_TRUE(CanNormRelu(at::zeros({1, 64, 1, 1}, at::kBFloat16)));
  EXPECT_FALSE(CanNormRelu(at::zeros({1, 12, 2, 2})));
  EXPECT_FALSE(CanNormRelu(at::zeros({1, 8, 2, 2}, at::kDouble)));
  EXPECT_FALSE(CanNormRelu(at::zeros({0, 8, 2, 2})));
}

// The bits of runs on three ranks or more depend on it, because gradients are added up in the order of their arrival.
TEST(NormRelu, WithoutKernelsTheShortcutComesAfterTheNormalisation) {
  ResNet model({.bottleneck = true, .blocks = {1}, .num_classes = 5});
  std::vector<std::string> arrived;
  for (const auto& item : model.named_parameters()) {
    item.value().register_hook([&arrived, name = item.key()](const at::Tensor& gradient) {
      arrived.push_back(name);
      return gradient;
    });
  }
  model.forward(at::randn({2, 3, 32, 32})).sum().backward();
  const auto place = [&](const char* name) {
    return std::find(arrived.begin(), arrived.end(), name) - arrived.begin();
  };
  EXPECT_LT(place("layer1.0.downsample.0.weight"), place("layer1.0.bn3.weight"));
  EXPECT_LT(place("layer1.0.bn3.weight"), place("layer1.0.conv3.weight"));
  EXPECT_LT(place("layer1.0.conv3.weight"), static_cast<std::ptrdiff_t>(arrived.size()));
}

// Compares two training steps of a whole network: outputs, gradients, statistics; and evaluation, which is not fused.
TEST(NormRelu, AResNetIsTheSameWithIt) {
  num_threads = 3000;
  for (const bool bottleneck : {false, true}) {
    at::manual_seed(2);
    const ResNetOptions options{.bottleneck = bottleneck, .blocks = {1, 2}, .num_classes = 5};
    ResNet plain(options), fused(options);
    {
      const at::NoGradGuard no_grad;
      for (const auto& item : plain.named_parameters()) fused.named_parameters()[item.key()].copy_(item.value());
    }
    FuseNorms(fused, kStandIn);
    for (int step = 0; step < 2; ++step) {
      const at::Tensor images = at::randn({4, 3, 32, 32});
      const at::Tensor wanted = plain.forward(images), result = fused.forward(images);
      EXPECT_LE(Distance(result, wanted), 1e-5);
      wanted.square().sum().backward();
      result.square().sum().backward();
    }
    for (const auto& item : plain.named_parameters()) {
      EXPECT_LE(Distance(fused.named_parameters()[item.key()].grad(), item.value().grad()), 1e-4) << item.key();
    }
    for (const auto& item : plain.named_buffers()) {
      EXPECT_LE(Distance(fused.named_buffers()[item.key()], item.value()), 1e-5) << item.key();
    }
    plain.eval();
    fused.eval();
    const at::Tensor images = at::randn({2, 3, 32, 32});
    EXPECT_LE(Distance(fused.forward(images), plain.forward(images)), 1e-5);
  }
}

}  // namespace
}  // namespace dtrain::models
