// Runs the kernel's threads in a loop, for every shape, type and layout, and compares with PrepareImages. There are
// more threads than values, as in the last block of a launch.
#include "data/kernels/normalise_images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/image/prepare_images.h"

namespace dtrain::data::kernels {
namespace {

const std::vector<double> kMean = {0.485, 0.456, 0.406}, kStd = {0.229, 0.224, 0.225};
constexpr int64_t kThreadsTooMany = 7;

template <typename T>
void RunThread(const NormaliseArguments& arguments, Layout layout, T* to, int64_t thread) {
  if (layout == Layout::kInterleaved) return NormaliseInterleaved(arguments, to, thread);
  NormalisePlanar(arguments, to, thread);
}

template <typename T>
at::Tensor RunAllThreads(const at::Tensor& images, Layout layout, at::ScalarType type) {
  NormaliseArguments arguments{
      images.const_data_ptr<uint8_t>(), images.size(0), images.size(1) * images.size(2), {}, {}};
  for (size_t i = 0; i < 3; ++i) {
    arguments.mean[i] = static_cast<float>(kMean[i]);
    arguments.std[i] = static_cast<float>(kStd[i]);
  }
  const auto format = layout == Layout::kPlanar ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
  // After the end there is a value that must not change.
  const int64_t values = images.numel();
  at::Tensor to = at::full({values + 1}, -77, at::TensorOptions(type));
  for (int64_t thread = 0; thread < values + kThreadsTooMany; ++thread) {
    RunThread(arguments, layout, to.mutable_data_ptr<T>(), thread);
  }
  EXPECT_EQ(to[values].item<float>(), -77);
  const std::vector<int64_t> shape = {images.size(0), 3, images.size(1), images.size(2)};
  at::Tensor result = at::empty(shape, at::TensorOptions(type).memory_format(format));
  if (result.nbytes() > 0) std::memcpy(result.mutable_data_ptr(), to.const_data_ptr(), result.nbytes());
  return result;
}

TEST(NormaliseImages, ThreadsMakeWhatTheCpuMakes) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1, 3}, {1, 1, 2, 3}, {3, 1, 1, 3}, {2, 3, 5, 3},
                                                    {5, 7, 4, 3}, {4, 8, 8, 3}, {0, 4, 4, 3}};
  for (const auto& shape : shapes) {
    const at::Tensor images = at::randint(256, shape, at::TensorOptions(at::kByte));
    for (const Layout layout : {Layout::kPlanar, Layout::kInterleaved}) {
      for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
        const ImagePreparation preparation{kMean, kStd, layout != Layout::kPlanar, type};
        const at::Tensor wanted = PrepareImages(images, preparation, at::kCPU);
        const at::Tensor result = type == at::kFloat  ? RunAllThreads<float>(images, layout, type)
                                  : type == at::kHalf ? RunAllThreads<at::Half>(images, layout, type)
                                                      : RunAllThreads<at::BFloat16>(images, layout, type);
        EXPECT_TRUE(at::equal(result, wanted)) << images.sizes() << type << static_cast<int>(layout);
      }
    }
  }
}

}  // namespace
}  // namespace dtrain::data::kernels
