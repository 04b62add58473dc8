// A batch on a device: what is pixels already is copied, what is still encoded (Batch::deferred) is decoded there.
// Which samples a batch has does not depend on the device: an image that it cannot decode is decoded here.
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
  // been cut out first) and mirrors it where it says so, into its row of `images`: uint8 N×S×S×3 on the device. On the
  // current stream, for which it may wait. Returns the positions in `rows` of those that it could not decode,
  // ascending; their rows are undefined.
  virtual std::vector<size_t> Decode(std::span<const DeferredRow> rows, const at::Tensor& images) = 0;
};

// Starts the copy of a host batch on the current stream; what is returned has nothing deferred. `decoder` may be null
// where `host` has nothing deferred, either. Throws what DeferredRows::decode_here throws.
Batch CopyToDevice(Batch host, at::Device device, DeviceImageDecoder* decoder);

}  // namespace dtrain::data
