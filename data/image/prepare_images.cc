#include "data/image/prepare_images.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <array>
#include <sstream>

#include "data/error.h"

namespace dtrain::data {
namespace {

using Table = std::array<std::array<float, 256>, 3>;

// Returns ToTensor (x/255) and Normalize ((x − mean)/std) of each byte, computed in float32 as torchvision does.
Table NormalisationTable(const std::vector<double>& mean, const std::vector<double>& std) {
  Table table{};
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t value = 0; value < 256; ++value) {
      const float scaled = static_cast<float>(value) / 255.0F;
      table[channel][value] = (scaled - static_cast<float>(mean[channel])) / static_cast<float>(std[channel]);
    }
  }
  return table;
}

void NormaliseInterleaved(const uint8_t* from, int64_t pixels, const Table& table, float* to) {
  for (int64_t i = 0; i < pixels; ++i, from += 3, to += 3) {
    for (size_t channel = 0; channel < 3; ++channel) to[channel] = table[channel][from[channel]];
  }
}

void NormalisePlanar(const uint8_t* from, int64_t pixels, const Table& table, float* to) {
  for (size_t channel = 0; channel < 3; ++channel) {
    for (int64_t i = 0; i < pixels; ++i) *to++ = table[channel][from[3 * i + static_cast<int64_t>(channel)]];
  }
}

at::Tensor Normalise(const at::Tensor& images, const Table& table, at::MemoryFormat format) {
  const int64_t count = images.size(0), height = images.size(1), width = images.size(2), pixels = height * width;
  const at::Tensor source = images.cpu().contiguous();
  at::Tensor result = at::empty({count, 3, height, width}, at::TensorOptions(at::kFloat).memory_format(format));
  const auto* from = source.const_data_ptr<uint8_t>();
  auto* to = result.mutable_data_ptr<float>();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    if (format == at::MemoryFormat::ChannelsLast) {
      const int64_t first = pixels * begin;
      NormaliseInterleaved(from + 3 * first, pixels * (end - begin), table, to + 3 * first);
    } else {
      for (int64_t i = begin; i < end; ++i) {
        NormalisePlanar(from + 3 * pixels * i, pixels, table, to + 3 * pixels * i);
      }
    }
  });
  return result;
}

void RequireImages(const at::Tensor& images, const ImagePreparation& preparation) {
  if (images.dim() != 4 || images.scalar_type() != at::kByte || images.size(3) != 3) {
    std::ostringstream text;
    text << "a batch of images of type " << images.scalar_type() << " and shape " << images.sizes();
    throw DataError(text.str(), "expected uint8 N×H×W×3 or float32 N×3×H×W");
  }
  if (preparation.mean.size() != 3 || preparation.std.size() != 3) {
    throw DataError("mean and std must have three numbers each", "see --mean, --std");
  }
}

}  // namespace

at::Tensor PrepareImages(const at::Tensor& images, const ImagePreparation& preparation, at::Device device,
                         DeviceNormalisation on_device) {
  const auto format = preparation.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  if (images.dim() == 4 && images.scalar_type() == at::kFloat && images.size(1) == 3) {
    return images.to(device, preparation.type, /*non_blocking=*/true, /*copy=*/false, format);
  }
  RequireImages(images, preparation);
  if (!device.is_cpu() && on_device != nullptr) {
    return on_device(images.to(device, at::kByte, /*non_blocking=*/true), preparation);
  }
  const Table table = NormalisationTable(preparation.mean, preparation.std);
  return Normalise(images, table, format).to(device, preparation.type);
}

}  // namespace dtrain::data
