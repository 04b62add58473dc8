// From a batch of the loader to what a network eats. On the CPU, normalisation is a table of 256 values a channel: the
// same bits as torchvision's ToTensor and Normalize, at the speed of a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dtrain::data {

// uint8 N×H×W×3 → float32 N×3×H×W on `device`, (x/255 − mean)/std by channel in float32. float32 N×3×H×W passes with
// its values untouched. `channels_last` chooses the memory format of the result. `mean` and `std` have three elements;
// they are not looked at for float32. Throws DataError on any other dtype or shape.
at::Tensor PrepareImages(const at::Tensor& images, const std::vector<double>& mean, const std::vector<double>& std,
                         at::Device device, bool channels_last);

}  // namespace dtrain::data
