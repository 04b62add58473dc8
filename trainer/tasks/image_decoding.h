// --decode: where the images of training are decoded.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "data/pipeline/device_batch.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

// Null with --decode=cpu. Throws UsageError where this rank cannot decode on `device`, its current one.
std::unique_ptr<data::DeviceImageDecoder> MakeDeviceImageDecoder(const config::Config& config, at::Device device);

}  // namespace dtrain::loop
