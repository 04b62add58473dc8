// The functions that libdtrain_cuda.so exports. No other part of the program is linked with CUDA and NCCL.
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <array>
#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "data/kernels/normalise_images.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain::device {
namespace {

// Returns the UUID of the GPU, or of the part of one (MIG), which cudaDeviceProp and the PCI id do not tell apart.
std::string UuidOf(int index) {
  std::array<unsigned char, 16> bytes{};
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  using GetUuid = int (*)(unsigned char* uuid, int device);
  const auto get = driver == nullptr ? nullptr : reinterpret_cast<GetUuid>(dlsym(driver, "cuDeviceGetUuid_v2"));
  if (get == nullptr || get(bytes.data(), index) != 0) return "";
  std::string text;
  for (const unsigned char byte : bytes) {
    for (const int digit : {byte / 16, byte % 16}) text += "0123456789abcdef"[digit];
  }
  return text;
}

// Asks for the versions of driver and runtime first, because those calls work even if all others fail.
GpuFacts Probe() {
  GpuFacts facts;
  facts.architectures = DTRAIN_CUDA_ARCHITECTURES;
  cudaDriverGetVersion(&facts.driver_version);
  cudaRuntimeGetVersion(&facts.runtime_version);
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  for (int index = 0; index < count && error == cudaSuccess; ++index) {
    cudaDeviceProp properties{};
    char pci_id[32] = "";
    error = cudaGetDeviceProperties(&properties, index);
    if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(pci_id, sizeof pci_id, index);
    const std::string uuid = UuidOf(index);
    facts.gpus.push_back({properties.name, properties.major, properties.minor, pci_id, uuid.empty() ? pci_id : uuid});
  }
  if (error != cudaSuccess) {
    facts.error = cudaGetErrorName(error);
    facts.error_text = cudaGetErrorString(error);
    facts.gpus.clear();
    cudaGetLastError();  // clears the error, which the next call would report again
  }
  return facts;
}

c10::intrusive_ptr<c10d::Backend> MakeNccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                           at::Device device, double timeout_seconds) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, options);
  nccl->setBoundDeviceId(device);  // otherwise a barrier has to guess the device
  return nccl;
}

data::kernels::Element ElementOf(at::ScalarType type) {
  if (type == at::kHalf) return data::kernels::Element::kHalf;
  if (type == at::kBFloat16) return data::kernels::Element::kBFloat16;
  TORCH_CHECK(type == at::kFloat, "images are prepared as float32, float16 or bfloat16, not ", type);
  return data::kernels::Element::kFloat;
}

at::Tensor NormaliseImages(const at::Tensor& images, const data::ImagePreparation& preparation) {
  constexpr uintptr_t kAlignment = data::kernels::kValuesPerThread;
  at::Tensor from = images.contiguous();
  if (reinterpret_cast<uintptr_t>(from.const_data_ptr()) % kAlignment != 0) from = from.clone();
  data::kernels::NormaliseArguments arguments{
      from.const_data_ptr<uint8_t>(), from.size(0), from.size(1) * from.size(2), {}, {}};
  for (size_t channel = 0; channel < 3; ++channel) {
    arguments.mean[channel] = static_cast<float>(preparation.mean.at(channel));
    arguments.std[channel] = static_cast<float>(preparation.std.at(channel));
  }
  const auto format = preparation.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  at::Tensor to = at::empty({from.size(0), 3, from.size(1), from.size(2)},
                            at::TensorOptions(preparation.type).device(images.device()).memory_format(format));
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(images.device().index());
  C10_CUDA_CHECK(static_cast<cudaError_t>(data::kernels::LaunchNormalise(
      arguments, to.mutable_data_ptr(), ElementOf(preparation.type),
      preparation.channels_last ? data::kernels::Layout::kInterleaved : data::kernels::Layout::kPlanar,
      stream.stream())));
  return to;
}

void* CurrentStream() { return c10::cuda::getCurrentCUDAStream().stream(); }

void Check(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }

// Starts one of the kernels of models/kernels on the current stream.
template <typename Arguments, int (*kLaunch)(const Arguments&, models::kernels::Element, void*)>
void Start(const Arguments& arguments, models::kernels::Element element) {
  Check(kLaunch(arguments, element, CurrentStream()));
}

}  // namespace

extern "C" const CudaPlugin dtrain_cuda_plugin = {
    .probe = &Probe,
    .set_device = [](int index) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); },
    .make_nccl = &MakeNccl,
    .flight_record =
        [] {
          return c10d::dump_nccl_trace(/*includeCollectives=*/true, /*includeStackTraces=*/false, /*onlyActive=*/false);
        },
    .normalise_images = &NormaliseImages,
    .norm = {.num_parts = &models::kernels::NumParts,
             .statistics = &Start<models::kernels::StatisticsArguments, models::kernels::LaunchStatistics>,
             .forward = &Start<models::kernels::ForwardArguments, models::kernels::LaunchForward>,
             .pool = &Start<models::kernels::PoolArguments, models::kernels::LaunchPool>,
             .sum = &Start<models::kernels::SumArguments, models::kernels::LaunchSum>,
             .backward = &Start<models::kernels::BackwardArguments, models::kernels::LaunchBackward>,
             .pair_sum = &Start<models::kernels::PairSumArguments, models::kernels::LaunchPairSum>,
             .pair_backward = &Start<models::kernels::PairBackwardArguments, models::kernels::LaunchPairBackward>,
             .num_image_parts = &models::kernels::NumImageParts,
             .squeeze = &Start<models::kernels::SqueezeArguments, models::kernels::LaunchSqueeze>,
             .image_sums = &Start<models::kernels::ImageSumsArguments, models::kernels::LaunchImageSums>,
             .add_images = &Start<models::kernels::AddImagesArguments, models::kernels::LaunchAddImages>},
    .stem = {.space_to_depth = &Start<models::kernels::SpaceToDepthArguments, models::kernels::LaunchSpaceToDepth>,
             .gradient_parts = &models::kernels::StemGradientParts,
             .gradient = &Start<models::kernels::StemGradientArguments, models::kernels::LaunchStemGradient>},
    .depthwise = {.num_parts = &models::kernels::NumTapsParts,
                  .convolve = &Start<models::kernels::DepthwiseArguments, models::kernels::LaunchDepthwise>,
                  .taps = &Start<models::kernels::DepthwiseTapsArguments, models::kernels::LaunchDepthwiseTaps>},
    .text = {.random = &CudaRandom,
             .norm_parts = &models::kernels::NumNormParts,
             .column_parts = &models::kernels::NumColumnParts,
             .norm = &Start<models::kernels::AddNormArguments, models::kernels::LaunchAddNorm>,
             .norm_gradient = &Start<models::kernels::AddNormGradientArguments, models::kernels::LaunchAddNormGradient>,
             .unit = &Start<models::kernels::LinearUnitArguments, models::kernels::LaunchLinearUnit>,
             .unit_gradient =
                 &Start<models::kernels::LinearUnitGradientArguments, models::kernels::LaunchLinearUnitGradient>,
             .rotate = &Start<models::kernels::RotationArguments, models::kernels::LaunchRotation>,
             .join = &Start<models::kernels::JoinArguments, models::kernels::LaunchJoin>,
             .cross_entropy = &Start<models::kernels::CrossEntropyArguments, models::kernels::LaunchCrossEntropy>,
             .cross_entropy_gradient =
                 &Start<models::kernels::CrossEntropyGradientArguments, models::kernels::LaunchCrossEntropyGradient>},
    .adam = &Start<optim::kernels::AdamArguments, optim::kernels::LaunchAdam>,
    .make_graphs = &MakeCudaGraphs,
};

}  // namespace dtrain::device
