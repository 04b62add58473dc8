// Compares the kernel that prepares images with the CPU's bits, and tests batches that are copied on a side stream.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/formats/raw_rows.h"
#include "data/formats/synthetic.h"
#include "data/image/prepare_images.h"
#include "data/pipeline/device_feed.h"
#include "models/layers.h"
#include "models/norm_relu.h"
#include "models/registry.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"

namespace dtrain {
namespace {

const std::vector<double> kMean = {0.485, 0.456, 0.406}, kStd = {0.229, 0.224, 0.225};

at::Device Gpu() { return distributed::DeviceOf(launch::Launch{}, "nccl"); }

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
        const at::Tensor result = data::PrepareImages(images, preparation, gpu, distributed::NormalisationOn(gpu));
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
  const at::Tensor result = data::PrepareImages(part, preparation, gpu, distributed::NormalisationOn(gpu));
  EXPECT_TRUE(at::equal(result.cpu(), data::PrepareImages(images.slice(0, 1), preparation, at::kCPU)));
}

// A residual network's training step with and without the kernels of --fused_norm.
TEST(FusedNorm, AResNetIsTheSameWithIt) {
  const at::Device gpu = Gpu();
  at::globalContext().setAllowTF32CuDNN(false);
  at::manual_seed(1);
  const auto plain = models::MakeImageModel("resnet50", {.num_classes = 10});
  const auto fused = models::MakeImageModel("resnet50", {.num_classes = 10});
  for (const auto& model : {plain, fused}) model->to(gpu);
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : plain->named_parameters()) fused->named_parameters()[item.key()].copy_(item.value());
  }
  models::FuseNorms(*fused, distributed::NormReluOn(gpu));
  const at::Tensor images =
      at::randn({8, 3, 64, 64}, at::TensorOptions(gpu)).contiguous(at::MemoryFormat::ChannelsLast);
  const auto distance = [](const at::Tensor& result, const at::Tensor& wanted) {
    return ((result - wanted).norm() / wanted.norm().clamp_min(1e-12)).item<double>();
  };
  const at::Tensor wanted = plain->forward(images), result = fused->forward(images);
  EXPECT_LE(distance(result, wanted), 1e-4);
  wanted.square().sum().backward();
  result.square().sum().backward();
  for (const auto& item : plain->named_parameters()) {
    EXPECT_LE(distance(fused->named_parameters()[item.key()].grad(), item.value().grad()), 1e-2) << item.key();
  }
  for (const auto& item : plain->named_buffers()) {
    if (!item.value().is_floating_point()) continue;
    EXPECT_LE(distance(fused->named_buffers()[item.key()], item.value()), 1e-4) << item.key();
  }
}

// Compares all results of the fused operation, for each type and with odd numbers of rows, with ATen's in float64 on
// the CPU.
TEST(FusedNorm, ValuesAndGradientsAreThoseOfAten) {
  const at::Device gpu = Gpu();
  const models::NormReluDevice& kernels = distributed::NormReluOn(gpu);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{5, 64, 13, 11}, {3, 2048, 7, 7}, {2, 24, 5, 3}, {64, 256, 28, 28}}) {
      const double tolerance = type == at::kFloat ? 1e-5 : type == at::kHalf ? 1e-2 : 5e-2;
      const auto on_gpu = [&](const at::Tensor& t) { return t.to(gpu).requires_grad_(); };
      const auto exact = [](const at::Tensor& t) { return t.to(at::kDouble).requires_grad_(); };
      const auto random = [&] { return at::randn(shape).to(type).contiguous(at::MemoryFormat::ChannelsLast); };
      const at::Tensor x = random(), z = random(), dy = random(), w = at::rand({shape[1]}) + 0.5,
                       b = at::randn({shape[1]});
      const at::Tensor x_gpu = on_gpu(x), z_gpu = on_gpu(z), w_gpu = on_gpu(w), b_gpu = on_gpu(b);
      const at::Tensor x64 = exact(x), z64 = exact(z), w64 = exact(w), b64 = exact(b);
      const at::Tensor zeros = at::zeros({shape[1]}, at::TensorOptions(gpu)), ones = at::ones_like(zeros);
      const auto [mean, inverse_std] = kernels.statistics(x_gpu.detach(), zeros, ones, 0.1, 1e-5);
      const at::Tensor y = models::NormRelu(kernels, x_gpu, z_gpu, w_gpu, b_gpu, mean, inverse_std);
      const at::Tensor y64 = (at::batch_norm(x64, w64, b64, {}, {}, true, 0.1, 1e-5, false) + z64).relu();
      const auto distance = [](const at::Tensor& result, const at::Tensor& right) {
        return ((result.cpu().to(at::kDouble) - right).norm() / right.norm()).item<double>();
      };
      EXPECT_LE(distance(y.detach(), y64.detach()), tolerance);
      const at::Tensor compared = dy * y64.detach().gt(0).eq(y.detach().cpu().gt(0));
      y.backward(compared.to(gpu));
      y64.backward(compared.to(at::kDouble));
      EXPECT_LE(distance(x_gpu.grad(), x64.grad()), tolerance);
      EXPECT_LE(distance(z_gpu.grad(), z64.grad()), tolerance);
      EXPECT_LE(distance(w_gpu.grad(), w64.grad()), tolerance);
      EXPECT_LE(distance(b_gpu.grad(), b64.grad()), tolerance);
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

}  // namespace
}  // namespace dtrain
