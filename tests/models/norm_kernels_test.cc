// Runs the kernels' threads in loops and compares with ATen in float64: values, gradients, statistics, and whole
// models. The numbers of threads and parts include more than there are rows and such that are no multiple of a row's.
#include "models/norm_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "models/image_networks.h"
#include "models/layers.h"
#include "models/sync_batch_norm.h"
#include "tests/models/norm_comparison.h"
#include "tests/models/norm_stand_in.h"

namespace dtrain::models {
namespace {

TEST(NormKernels, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const NormCase& c : NormCases()) {
      for (const int64_t threads : {37, 5000}) {
        if (threads == 37 && type != at::kFloat) continue;  // the same but for rounding
        stand_in::num_threads = threads;
        stand_in::num_parts = threads < 100 ? 1 : 7;
        Compare(c, type, stand_in::kKernels, at::kCPU);
      }
    }
  }
}

TEST(NormKernels, SqueezeAndExcitationIsThatOfAtenInDoublePrecision) {
  at::manual_seed(6);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const NormCase& c : ExcitedCases()) {
      for (const int parts : {1, 2, 5}) {
        stand_in::num_threads = parts == 1 ? 37 : 5000;
        stand_in::num_parts = stand_in::num_image_parts = parts;
        CompareExcited(c, type, stand_in::kKernels, at::kCPU);
      }
    }
  }
}

TEST(NormKernels, ANaNPassesThroughTheExcitationOfItsImageAlone) {
  const at::Tensor x = at::randn({2, 8, 4, 4}).contiguous(kLast).requires_grad_();
  const Norm norm(8, stand_in::kKernels);
  const Normalisation found = norm.On(x);
  at::Tensor with_nan = x.detach().clone(kLast);
  with_nan[0][3][1][2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y =
      SqueezeExcite(with_nan.requires_grad_(), found, [](const at::Tensor& means) { return at::sigmoid(means); });
  EXPECT_TRUE(y[0][3].isnan().all().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 16);
  at::Tensor dy = at::ones_like(y);
  dy[1][5][0][0] = std::numeric_limits<float>::infinity();
  y.backward(dy);
  EXPECT_FALSE(norm.weight.grad()[3].isfinite().item<bool>());
  EXPECT_FALSE(norm.bias.grad()[5].isfinite().item<bool>());
  EXPECT_TRUE(norm.bias.grad()[4].isfinite().item<bool>());
}

// Also means a thousand times the deviation, a first row far from the others, and a constant channel.
TEST(NormKernels, StatisticsAreExact) {
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const int parts : {1, 4, 300}) {
      stand_in::num_parts = parts;
      at::Tensor values = at::randn({4, 16, 13, 11});
      values.select(1, 1) += 1000;
      values.select(1, 2).mul_(1e-3).sub_(1);
      values.select(1, 3).fill_(0.1);
      values[0][4][0][0] = 50;
      values.select(1, 5).mul_(100);
      const at::Tensor x = values.to(type).contiguous(kLast), x64 = x.to(at::kDouble);
      const Norm norm(16, stand_in::kKernels);
      for (int batch = 0; batch < 2; ++batch) {
        const Normalisation found = norm.On(x);
        const auto [variance, mean] = at::var_mean(x64, {0, 2, 3}, /*correction=*/0);
        EXPECT_LE(((found.mean - mean).abs() / (mean.abs() + variance.sqrt())).max().item<double>(), 5e-7);
        const at::Tensor wanted = at::rsqrt(variance + kNormEpsilon);
        EXPECT_LE(((found.inverse_std - wanted).abs() / wanted).max().item<double>(), 1e-6) << type << parts;
      }
      const at::Tensor mean = at::zeros({16}, at::kDouble), variance = at::ones({16}, at::kDouble);
      for (int batch = 0; batch < 2; ++batch) {
        at::batch_norm(x64, {}, {}, mean, variance, true, kNormMomentum, kNormEpsilon, false);
      }
      EXPECT_LE(Distance(norm.running.mean, mean), 1e-6);
      EXPECT_LE(Distance(norm.running.variance, variance), 1e-6);
      EXPECT_EQ(norm.running.batches.item<int64_t>(), 2);
    }
  }
}

TEST(NormKernels, TheOrderOfBlocksChangesNoBit) {
  at::manual_seed(3);
  stand_in::num_parts = 5;
  const at::Tensor values = at::randn({3, 72, 7, 9}).contiguous(kLast), dy = at::randn_like(values);
  const Norm norm(72, stand_in::kKernels);
  std::vector<at::Tensor> results[2];
  for (const bool last_first : {false, true}) {
    stand_in::last_part_first = last_first;
    const at::Tensor x = values.clone().requires_grad_();
    norm.weight.mutable_grad().reset();
    const Normalisation found = norm.On(x);
    Normalised(x, found, {.activation = Activation::kRelu}).main.backward(dy);
    results[last_first] = {found.mean, found.inverse_std, x.grad(), norm.weight.grad()};
    EXPECT_EQ(found.finished.abs().sum().item<int64_t>(), 0);
  }
  stand_in::last_part_first = false;
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
}

// The backward pass begins where memory is at its peak.
TEST(NormKernels, TheGradientOfASumOfTwoNormsIsFreeAfterTheFirstKernel) {
  static c10::weak_intrusive_ptr<c10::StorageImpl> gradient(c10::intrusive_ptr<c10::StorageImpl>{});
  static bool is_free = false;
  NormKernels kernels = stand_in::kKernels;
  kernels.pair_backward = [](const kernels::PairBackwardArguments& arguments, kernels::Element element) {
    is_free = gradient.expired();
    stand_in::kKernels.pair_backward(arguments, element);
  };
  const at::Tensor x = at::randn({2, 8, 4, 4}).contiguous(kLast).requires_grad_();
  const Norm norm(8, kernels), z_norm(8, kernels);
  const Normalisation of_x = norm.On(x), of_z = z_norm.On(x);
  const at::Tensor y = Normalised(x, of_x, {.activation = Activation::kRelu, .z_NCHW = x, .z_norm = &of_z}).main;
  y.register_hook([](const at::Tensor& dy) { gradient = dy.storage().getWeakStorageImpl(); });
  y.pow(2).sum().backward();
  EXPECT_TRUE(is_free);
}

TEST(NormKernels, ANaNIsSeen) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSilu, Activation::kReluPool}) {
    at::Tensor x = at::randn({2, 8, 4, 4}).contiguous(kLast);
    x[0][3][1][2] = std::numeric_limits<float>::quiet_NaN();
    const Norm norm(8, stand_in::kKernels);
    Normalisation found = norm.On(x);
    EXPECT_TRUE(found.mean[3].isnan().item<bool>());
    EXPECT_EQ(found.mean.isnan().sum().item<int64_t>(), 1);
    found.mean = at::zeros({8});
    found.inverse_std = at::ones({8});
    const at::Tensor y = Normalised(x, found, {.activation = activation}).main;
    if (activation == Activation::kReluPool) {
      const at::Tensor wanted = at::max_pool2d(x.relu(), 3, 2, 1).isnan();
      EXPECT_TRUE(at::equal(y.isnan(), wanted));
      EXPECT_GT(wanted.sum().item<int64_t>(), 1);
    } else {
      EXPECT_TRUE(y[0][3][1][2].isnan().item<bool>());
      EXPECT_EQ(y.isnan().sum().item<int64_t>(), 1);
    }
  }
}

TEST(NormKernels, TakesWhatTheKernelsCan) {
  const auto zeros = [](at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return at::empty(sizes, at::TensorOptions(type), kLast).zero_();
  };
  EXPECT_TRUE(HasNormKernels(zeros({1, 8, 2, 2})));
  EXPECT_TRUE(HasNormKernels(zeros({1, 64, 1, 1}, at::kBFloat16)));
  EXPECT_TRUE(HasNormKernels(zeros({1, 8, 4, 4}).slice(2, 0, 4, 2)));
  EXPECT_FALSE(HasNormKernels(zeros({1, 12, 2, 2})));
  EXPECT_FALSE(HasNormKernels(zeros({1, 8, 2, 2}, at::kDouble)));
  EXPECT_FALSE(HasNormKernels(zeros({0, 8, 2, 2})));
  EXPECT_FALSE(HasNormKernels(at::zeros({1, 8, 2, 2})));  // NCHW
  // What is strided or begins at any byte is copied.
  const at::Tensor wide = at::randn({2, 16, 4, 4}).contiguous(kLast);
  for (const at::Tensor& x : {wide.slice(2, 0, 4, 2), wide.slice(1, 1, 9), wide[0].unsqueeze(0).slice(2, 1, 2),
                              at::randn({129}).slice(0, 1).view({4, 4, 2, 4}).permute({0, 3, 1, 2})}) {
    const at::Tensor ready = ForNormKernels(x);
    EXPECT_TRUE(at::equal(ready, x) && ready.is_contiguous(kLast));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ready.const_data_ptr()) % 16, 0U);
  }
}

// The bits of runs on three ranks or more depend on it, because gradients are added up in the order of their arrival.
TEST(NormKernels, WithoutThemTheShortcutComesAfterTheNormalisation) {
  const auto model = MakeResNet({.bottleneck = true, .blocks = {1}}, {.num_classes = 5});
  std::vector<std::string> arrived;
  for (const auto& item : model->named_parameters()) {
    item.value().register_hook([&arrived, name = item.key()](const at::Tensor& gradient) {
      arrived.push_back(name);
      return gradient;
    });
  }
  model->forward(at::randn({2, 3, 32, 32})).sum().backward();
  const auto place = [&](const char* name) {
    return std::find(arrived.begin(), arrived.end(), name) - arrived.begin();
  };
  EXPECT_LT(place("layer1.0.downsample.0.weight"), place("layer1.0.bn3.weight"));
  EXPECT_LT(place("layer1.0.bn3.weight"), place("layer1.0.conv3.weight"));
  EXPECT_LT(place("layer1.0.conv3.weight"), static_cast<std::ptrdiff_t>(arrived.size()));
}

// Compares two training steps of a whole network: outputs, gradients, statistics; and evaluation, which is ATen's.
void CompareModels(ImageModel& plain, ImageModel& with, int64_t size, double tolerance) {
  stand_in::num_threads = 3000;
  stand_in::num_parts = 3;
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : plain.named_parameters()) with.named_parameters()[item.key()].copy_(item.value());
  }
  UseKernels(with, {.norm = &stand_in::kKernels});
  for (int step = 0; step < 2; ++step) {
    const at::Tensor images = at::randn({4, 3, size, size}).contiguous(kLast);
    at::manual_seed(step);
    const at::Tensor wanted = plain.forward(images);
    at::manual_seed(step);  // both drop the same samples
    const at::Tensor result = with.forward(images);
    EXPECT_LE(Distance(result, wanted), 1e-5);
    wanted.square().sum().backward();
    result.square().sum().backward();
  }
  // What a later normalisation takes away again (a bias before a convolution, the mean of such an output) is 0 but for
  // rounding.
  double largest = 0;
  for (const at::Tensor& parameter : plain.parameters()) {
    largest = std::max(largest, parameter.grad().norm().item<double>());
  }
  for (const auto& item : plain.named_parameters()) {
    if (item.value().grad().norm().item<double>() < 1e-4 * largest) continue;
    EXPECT_LE(Distance(with.named_parameters()[item.key()].grad(), item.value().grad()), tolerance) << item.key();
  }
  for (const auto& item : plain.named_buffers()) {
    const at::Tensor difference = (with.named_buffers()[item.key()] - item.value()).to(at::kDouble).abs();
    EXPECT_LE((difference - 1e-5 * item.value().abs()).max().item<double>(), 2e-6) << item.key();
  }
  plain.eval();
  with.eval();
  const at::Tensor images = at::randn({2, 3, 32, 32});
  EXPECT_LE(Distance(with.forward(images), plain.forward(images)), 1e-5);
}

TEST(NormKernels, AResNetIsTheSameWithThem) {
  for (const bool bottleneck : {false, true}) {
    for (const std::string frozen : {"", "layer2.0.downsample", "layer2.0.bn2"}) {
      at::manual_seed(2);
      const ResNetOptions options{.bottleneck = bottleneck, .blocks = {1, 2}};
      const auto plain = MakeResNet(options, {.num_classes = 5}), with = MakeResNet(options, {.num_classes = 5});
      for (const auto& model : {plain, with}) {
        model->apply([&](const std::string& name, torch::nn::Module& module) {
          if (!frozen.empty() && name.starts_with(frozen)) module.eval();
        });
      }
      SCOPED_TRACE(frozen);
      CompareModels(*plain, *with, /*size=*/32, /*tolerance=*/1e-4);
    }
  }
}

TEST(NormKernels, AnEfficientNetIsTheSameWithThem) {
  for (const double drop_path : {0.0, 0.5}) {
    at::manual_seed(4);
    const EfficientNetOptions options{.stages = {{1, 3, 1, 8, 8, 1, /*fused=*/true},
                                                 {4, 3, 2, 8, 8, 2, /*fused=*/true},
                                                 {1, 3, 1, 8, 8, 1},
                                                 {6, 5, 2, 8, 16, 2},
                                                 {6, 3, 2, 16, 24, 1}},
                                      .head_channels = 96};
    const ImageModelOptions given{.num_classes = 5, .dropout = 0, .drop_path = drop_path};
    const auto plain = MakeEfficientNet(options, given), with = MakeEfficientNet(options, given);
    CompareModels(*plain, *with, /*size=*/64, /*tolerance=*/1e-3);
  }
}

// One batch that is cut in two, with sums added between the halves, must give BatchNorm's result for the whole.
// Runs two ranks as two threads. Each sum waits for the other rank's.
class TwoRanks {
 public:
  SumOverRanks SumOf(int rank) {
    return [this, rank](at::Tensor& tensor) {
      parts_[rank] = tensor.clone();
      barrier_.arrive_and_wait();
      tensor.copy_(parts_[0] + parts_[1]);
      barrier_.arrive_and_wait();
    };
  }

 private:
  std::barrier<> barrier_{2};
  at::Tensor parts_[2];
};

struct Gradients {
  at::Tensor output, dx, dweight, dbias, running_mean, running_var, batches;
};

// With a `sum`, this is one of two ranks.
Gradients RunNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& slope,
                  const SumOverRanks& sum, bool with_kernels, bool excites) {
  const at::Tensor own_x = x.clone().requires_grad_();
  BatchNorm2d norm(weight.size(0));
  norm->weight.set_data(weight.clone());
  norm->bias.set_data(bias.clone());
  if (sum) norm->Synchronize(sum);
  if (with_kernels) norm->UseKernels({.norm = &stand_in::kKernels});
  const at::Tensor output = excites
                                ? norm->SqueezeExcite(own_x, [](const at::Tensor& means) { return means.sigmoid(); })
                                : norm->forward(own_x);
  (output.sigmoid() * slope).sum().backward();
  return {output.detach(),    own_x.grad(),      norm->weight.grad(),      norm->bias.grad(),
          norm->running_mean, norm->running_var, norm->num_batches_tracked};
}

TEST(SyncBatchNorm, HalvesMatchTheWhole) {
  at::manual_seed(1);
  const at::Tensor x = (at::randn({10, 8, 5, 4}) * 3 + 7).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor slope = at::randn_like(x), weight = at::rand({8}) + 0.5, bias = at::randn({8});
  const std::vector<int64_t> sizes = {3, 7};  // ranks may hold unequal batches
  const auto xs = x.split_with_sizes(sizes), slopes = slope.split_with_sizes(sizes);
  for (const auto& [with_kernels, excites] : {std::pair{false, false}, {true, false}, {true, true}}) {
    const Gradients whole = RunNorm(x, weight, bias, slope, nullptr, /*with_kernels=*/false, excites);
    TwoRanks ranks;
    Gradients halves[2];
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank, with = with_kernels, excited = excites] {
          halves[rank] = RunNorm(xs[rank], weight, bias, slopes[rank], ranks.SumOf(rank), with, excited);
        });
      }
    }
    EXPECT_TRUE(at::allclose(at::cat({halves[0].output, halves[1].output}), whole.output, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(at::cat({halves[0].dx, halves[1].dx}), whole.dx, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(halves[0].dweight + halves[1].dweight, whole.dweight, 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(halves[0].dbias + halves[1].dbias, whole.dbias, 1e-4, 1e-5));
    for (const Gradients& half : halves) {
      EXPECT_TRUE(at::allclose(half.running_mean, whole.running_mean, 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(half.running_var, whole.running_var, 1e-5, 1e-6));
      EXPECT_EQ(half.batches.item<int64_t>(), 1);
    }
  }
}

}  // namespace
}  // namespace dtrain::models
