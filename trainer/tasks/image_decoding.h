// --decode: whether training images are decoded on the CPU or on the GPU.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "data/pipeline/device_batch.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// Returns null with --decode=cpu and outside training. `device` is the current one. Throws UsageError if it cannot
// decode.
std::unique_ptr<data::DeviceImageDecoder> MakeDeviceImageDecoder(const config::Config& config, at::Device device);

}  // namespace dtrain::loop
