#include "trainer/tasks/image_decoding.h"

#include "trainer/device/cuda_plugin.h"

namespace dtrain::loop {

std::unique_ptr<data::DeviceImageDecoder> MakeDeviceImageDecoder(const config::Config& config, at::Device device) {
  if (config.data.decode != "gpu" || config.run.mode != "train") return nullptr;
  return distributed::ImageDecoderOn(device, data::InterpolationFromName(config.image.interpolation));
}

}  // namespace dtrain::loop
