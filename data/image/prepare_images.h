// Turns a batch's images into a network's input. On the CPU, each byte is normalised through a table of 256 values a
// channel: the bits of torchvision's ToTensor and Normalize at the speed of a copy. On a GPU, one kernel computes the
// same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dtrain::data {

struct ImagePreparation {
  std::vector<double> mean, std;  // three elements each; ignored for float32 images
  bool channels_last = true;      // memory format of the result
  at::ScalarType type = at::kFloat;
};

// Normalises uint8 N×H×W×3 images on a device other than the CPU. The trainer passes it in, so that this folder does
// not depend on CUDA.
using DeviceNormalisation = at::Tensor (*)(const at::Tensor& images, const ImagePreparation& preparation);

// Returns N×3×H×W of preparation.type on `device`. uint8 N×H×W×3 images become (x/255 − mean)/std by channel,
// computed in float32; float32 N×3×H×W images are only cast. If `device` is not the CPU, `on_device` normalises uint8
// images there; if it is null, they are normalised on the CPU and then copied. Throws DataError for any other dtype or
// shape.
at::Tensor PrepareImages(const at::Tensor& images, const ImagePreparation& preparation, at::Device device,
                         DeviceNormalisation on_device = nullptr);

}  // namespace dtrain::data
