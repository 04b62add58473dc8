// The kernel that prepares images against the CPU's bits, and batches that travel on a side stream.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/formats/raw_rows.h"
#include "data/formats/synthetic.h"
#include "data/image/prepare_images.h"
#include "data/pipeline/device_feed.h"
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
  const at::Tensor part = images.to(gpu).slice(0, 1);  // begins 27 bytes in
  const at::Tensor result = data::PrepareImages(part, preparation, gpu, distributed::NormalisationOn(gpu));
  EXPECT_TRUE(at::equal(result.cpu(), data::PrepareImages(images.slice(0, 1), preparation, at::kCPU)));
}

// Each batch is worked on long enough that the next one's copy would overwrite it, were its memory not kept.
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
