// Compares the kernel that prepares images with the CPU's bits, those of batch normalisation and Adam with ATen, and
// tests batches that are copied on a side stream.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "data/formats/raw_rows.h"
#include "data/image/prepare_images.h"
#include "data/machine/thread.h"
#include "data/pipeline/device_feed.h"
#include "models/layers.h"
#include "models/registry.h"
#include "tests/gpu/gpu.h"
#include "tests/models/convolution_comparison.h"
#include "tests/models/norm_comparison.h"
#include "tests/trainer/optim/adam_comparison.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/optim/precision.h"

namespace dtrain {
namespace {

const std::vector<double> kMean = {0.485, 0.456, 0.406}, kStd = {0.229, 0.224, 0.225};

TEST(NormaliseImages, TheGpuMakesTheCpusBits) {
  const at::Device gpu = Gpu();
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1, 3}, {3, 1, 1, 3},   {2, 3, 5, 3},     {5, 7, 4, 3},
                                                    {0, 4, 4, 3}, {7, 33, 31, 3}, {16, 224, 224, 3}};
  for (const auto& shape : shapes) {
    const at::Tensor images = at::randint(256, shape, at::TensorOptions(at::kByte));
    for (const bool channels_last : {true, false}) {
      for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
        const data::ImagePreparation preparation{kMean, kStd, channels_last, type};
        const at::Tensor wanted = data::PrepareImages(images, preparation, at::kCPU);
        const at::Tensor result = data::PrepareImages(images, preparation, gpu, device::NormalisationOn(gpu));
        EXPECT_TRUE(result.is_cuda());
        EXPECT_EQ(result.strides(), wanted.strides());
        EXPECT_TRUE(at::equal(result.cpu(), wanted)) << images.sizes() << type << channels_last;
      }
    }
  }
}

TEST(NormaliseImages, AnUnalignedBatchIsNoExcuse) {
  const at::Device gpu = Gpu();
  const at::Tensor images = at::randint(256, {5, 3, 3, 3}, at::TensorOptions(at::kByte));
  const data::ImagePreparation preparation{kMean, kStd, true, at::kFloat};
  const at::Tensor part = images.to(gpu).slice(0, 1);  // begins at byte 27
  const at::Tensor result = data::PrepareImages(part, preparation, gpu, device::NormalisationOn(gpu));
  EXPECT_TRUE(at::equal(result.cpu(), data::PrepareImages(images.slice(0, 1), preparation, at::kCPU)));
}

TEST(StemKernels, AreTheConvolution) {
  const at::Device gpu = Gpu();
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const models::StemCase& c :
         {models::StemCase{2, 32, 30, 64, 7}, models::StemCase{3, 33, 37, 64, 7}, models::StemCase{1, 7, 500, 64, 7},
          models::StemCase{5, 224, 224, 64, 7}, models::StemCase{2, 33, 31, 32, 3}}) {
      models::Compare(c, type, *device::KernelsOn(gpu).stem, gpu);
    }
  }
}

TEST(NormKernels, ValuesAndGradientsAreThoseOfAtenInDoublePrecision) {
  const at::Device gpu = Gpu();
  at::manual_seed(1);
  std::vector<models::NormCase> cases = models::NormCases();
  using models::Activation;
  using models::Adds;
  cases.push_back({3, 2048, 7, 7, Activation::kRelu, Adds::kTensor, true});
  cases.push_back({32, 256, 28, 28, Activation::kRelu, Adds::kNorm, true});
  cases.push_back({16, 64, 55, 57, Activation::kReluPool, Adds::kNothing, true});
  cases.push_back({16, 96, 33, 31, Activation::kSilu, Adds::kNothing, false});
  cases.push_back({16, 40, 29, 27, Activation::kNone, Adds::kTensorToScaled, true});
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const models::NormCase& c : cases) models::Compare(c, type, *device::KernelsOn(gpu).norm, gpu);
  }
}

TEST(NormKernels, SqueezeAndExcitationIsThatOfAtenInDoublePrecision) {
  const at::Device gpu = Gpu();
  at::manual_seed(6);
  std::vector<models::NormCase> cases = models::ExcitedCases();
  cases.push_back({4, 32, 112, 111, models::Activation::kSilu, models::Adds::kNothing, false});  // images are cut
  cases.push_back({128, 672, 7, 7, models::Activation::kSilu, models::Adds::kNothing, false});
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const models::NormCase& c : cases) models::CompareExcited(c, type, *device::KernelsOn(gpu).norm, gpu);
  }
}

TEST(NormKernels, EachRunHasTheSameBits) {
  const at::Device gpu = Gpu();
  const at::Tensor values =
      at::randn({64, 64, 56, 56}, at::TensorOptions(gpu)).contiguous(at::MemoryFormat::ChannelsLast);
  const models::Norm norm(64, *device::KernelsOn(gpu).norm, gpu);
  ExpectSameBits([&]() -> std::vector<at::Tensor> {
    const at::Tensor x = values.clone().requires_grad_();
    norm.weight.mutable_grad().reset();
    const models::Normalisation found = norm.On(x);
    models::Normalised(x, found, {.activation = models::Activation::kRelu}).main.square().sum().backward();
    return {found.mean, found.inverse_std, x.grad(), norm.weight.grad()};
  });
}

// Many blocks make much of any rounding, so ATen's own distance from float64 is the limit.
void CompareModels(const std::string& name, const std::string& precision) {
  SCOPED_TRACE(name + " " + precision);
  const at::Device gpu = Gpu();
  at::globalContext().setAllowTF32CuDNN(false);
  at::manual_seed(1);
  const models::ImageModelOptions options{.num_classes = 10, .dropout = 0, .drop_path = 0};
  const auto exact = models::MakeImageModel(name, options);
  const auto aten = models::MakeImageModel(name, options);
  const auto ours = models::MakeImageModel(name, options);
  for (const auto& model : {aten, ours}) {
    const at::NoGradGuard no_grad;
    for (const auto& item : exact->named_parameters()) model->named_parameters()[item.key()].copy_(item.value());
    model->to(gpu);
  }
  exact->to(gpu, at::kDouble);
  models::DeviceKernels kernels = device::KernelsOn(gpu);
  kernels.stem = nullptr;
  models::UseKernels(*ours, kernels);
  const at::Tensor images =
      at::randn({8, 3, 64, 64}, at::TensorOptions(gpu)).contiguous(at::MemoryFormat::ChannelsLast);
  exact->forward(images.to(at::kDouble)).square().sum().backward();
  // What a later normalisation takes away again is 0 but for rounding.
  double largest = 0;
  for (const at::Tensor& parameter : exact->parameters()) {
    largest = std::max(largest, parameter.grad().norm().item<double>());
  }
  const auto distance = [&](models::ImageModel& model) {
    at::Tensor logits;
    {
      const optim::AutocastScope autocast(gpu.type(), optim::PrecisionNamed(precision));
      logits = model.forward(images).to(at::kFloat);
    }
    logits.square().sum().backward();
    double squares = 0;
    for (const auto& item : exact->named_parameters()) {
      if (item.value().grad().norm().item<double>() < 1e-4 * largest) continue;
      squares += std::pow(models::Distance(model.named_parameters()[item.key()].grad(), item.value().grad()), 2);
    }
    return std::sqrt(squares / static_cast<double>(exact->named_parameters().size()));
  };
  // Where ATen adds residuals in float32, ours have the type of products.
  const double of_aten = distance(*aten), of_ours = distance(*ours);
  EXPECT_LE(of_ours, (name == "resnet50" || name == "efficientnet_b0" ? 2 : 4) * of_aten + 1e-5);
  if (precision != "fp32") return;
  constexpr double kRounding = 1e-6;
  for (const auto& item : exact->named_buffers()) {
    // The mean of what is computed from a normalised tensor without an activation is 0.
    if (item.value().to(at::kDouble).norm().item<double>() < kRounding) continue;
    EXPECT_LE(models::Distance(ours->named_buffers()[item.key()], item.value()), 1e-4) << item.key();
  }
}

TEST(NormKernels, ModelsAreAsExactAsWithAten) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const char* name : {"resnet50", "efficientnet_b0", "vit_tiny_patch16_224", "deit3_small_patch16_224",
                             "convnext_atto", "convnextv2_atto"}) {
      CompareModels(name, precision);
    }
  }
}

TEST(DepthwiseKernels, AreAsExactAsTheirType) {
  const at::Device gpu = Gpu();
  at::manual_seed(2);
  std::vector<models::DepthwiseCase> cases = models::DeviceDepthwiseCases();
  for (const int64_t kernel : {3, 5, 7}) {
    for (const int64_t stride : {1, 2}) {
      if (kernel == 7 && stride == 2) continue;
      cases.push_back({4, 32, 56, 55, kernel, stride});
      cases.push_back({64, 672, 14, 14, kernel, stride});  // blocks take several strips
    }
  }
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    for (const models::DepthwiseCase& c : cases) {
      models::CompareDepthwise(c, type, *device::KernelsOn(gpu).depthwise, gpu);
    }
  }
}

// It is ATen's but for rounding: on an H100 the last bit of some weights differs.
TEST(AdamKernel, AgreesWithAtensButForRounding) {
  const at::Device gpu = Gpu();
  for (const config::OptimizerConfig& config : optim::AdamCases()) {
    for (const at::ScalarType copies : {at::kFloat, at::kHalf, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << config.name << copies);
      optim::CompareAdam(config, copies, device::AdamKernelOn(gpu), gpu, /*tolerance=*/1e-6);
    }
  }
}

// Work on each batch lasts so long that the next one's copy would overwrite it if its memory were not kept.
TEST(DeviceFeed, BatchesArriveWholeWhileTheOneBeforeIsComputedOn) {
  constexpr int64_t kBatches = 30, kSize = 96, kRows = 32;
  const at::Device gpu = Gpu();
  const data::Synthetic source(kBatches * kRows, 10, kSize, kSize, 0);
  const data::RawRowDecoder decoder(source.rows());
  const auto provider = [](int64_t number) -> std::optional<std::vector<data::SampleRef>> {
    if (number >= kBatches) return std::nullopt;
    std::vector<data::SampleRef> samples;
    for (int64_t row = 0; row < kRows; ++row) samples.push_back({number * kRows + row, 0});
    return samples;
  };
  data::Loader on_host(source, decoder, provider, {}, nullptr);
  data::Loader pinned(source, decoder, provider, {.pin_memory = true}, nullptr);
  data::DeviceFeed feed(pinned, data::MakeTransport(gpu));
  at::Tensor busy = at::randn({2048, 2048}, at::TensorOptions(gpu));
  std::vector<at::Tensor> sums;
  std::vector<int64_t> wanted;
  while (const auto batch = feed.Next()) {
    EXPECT_TRUE((*batch)["images"].is_cuda());
    for (int i = 0; i < 4; ++i) busy = at::tanh(busy.matmul(busy) * 1e-3);
    sums.push_back((*batch)["images"].sum() + (*batch)["labels"].sum() + (busy.sum() * 0).to(at::kLong));
    const auto same = on_host.Next();
    wanted.push_back(((*same)["images"].sum() + (*same)["labels"].sum()).item<int64_t>());
  }
  ASSERT_EQ(sums.size(), static_cast<size_t>(kBatches));
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i].item<int64_t>(), wanted[i]) << "batch " << i;
}

// LibTorch's pool has 32 streams, which it gives out in turn.
TEST(DeviceFeed, AllCopiesAreMadeOnOneStream) {
  const at::Device gpu = Gpu();
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  data::MakeTransport(gpu);
  const c10::Stream first = guard.getStreamFromGlobalPool(gpu);
  for (int i = 0; i < 31; ++i) data::MakeTransport(gpu);
  EXPECT_NE(guard.getStreamFromGlobalPool(gpu), first);
}

// With one GPU, this is true in any case.
TEST(Threads, WorkOnTheRanksGpu) {
  launch::Launch launch;
  if (device::CountGpus() > 1) launch.local_rank = 1;
  launch.local_world_size = launch.local_rank + 1;
  const at::Device gpu = device::DeviceOf(launch, "nccl");
  data::Thread([gpu] { EXPECT_EQ(c10::impl::VirtualGuardImpl(at::kCUDA).getDevice(), gpu); }).join();
  Gpu();
}

}  // namespace
}  // namespace dtrain
