// Moves a batch to a device: pixels are copied, encoded images (Batch::deferred) are decoded there. The samples of a
// batch do not depend on the device: an image that it cannot decode is decoded on the CPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <span>
#include <vector>

#include "data/pipeline/batch.h"

namespace dtrain::data {

// Decodes JPEGs on a device.
class DeviceImageDecoder {
 public:
  virtual ~DeviceImageDecoder() = default;

  // Decodes each row's image, crops it as its work (an ImageGeometry) says, resizes the crop (antialiased, as if it had
  // been cut out first) and, if the work says so, mirrors it, into its row of `images`: uint8 N×S×S×3 on the device.
  // Runs on the current stream and may wait for it. Returns the positions in `rows` of images that it could not decode,
  // ascending; their rows of `images` are undefined.
  virtual std::vector<size_t> Decode(std::span<const DeferredRow> rows, const at::Tensor& images) = 0;
};

// Starts the copy of a host batch on the current stream. The returned batch has no deferred rows. `decoder` may be null
// if `host` has none, either. Throws what DeferredRows::decode_here throws.
Batch CopyToDevice(Batch host, at::Device device, DeviceImageDecoder* decoder);

}  // namespace dtrain::data
