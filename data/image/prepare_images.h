// From a batch's images to what a network eats. On the CPU, normalisation is a table of 256 values a channel: the same
// bits as torchvision's ToTensor and Normalize, at the speed of a copy. On a GPU it is one kernel, with those bits too.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dtrain::data {

struct ImagePreparation {
  std::vector<double> mean, std;  // three elements each; not looked at for float32 images
  bool channels_last = true;      // memory format of the result
  at::ScalarType type = at::kFloat;
  int64_t channels = 3;  // of the result; 4: a channel of zeros behind the three, for channels last alone
};

// Normalises uint8 N×H×W×3 images on a device other than the CPU. The trainer hands it in: this folder does not depend
// on CUDA.
using DeviceNormalisation = at::Tensor (*)(const at::Tensor& images, const ImagePreparation& preparation);

// uint8 N×H×W×3 → N×channels×H×W of the wanted type on `device`, (x/255 − mean)/std by channel computed in float32.
// float32 N×3×H×W passes with its values untouched, but for the cast. On the CPU `on_device` is not used; it may be
// null on a GPU, where several operators then do what it does in one. Throws DataError on any other dtype or shape.
at::Tensor PrepareImages(const at::Tensor& images, const ImagePreparation& preparation, at::Device device,
                         DeviceNormalisation on_device = nullptr);

}  // namespace dtrain::data
