// Moves a batch to a device.
#pragma once

#include <c10/core/Device.h>

#include "data/pipeline/batch.h"

namespace dtrain::data {

// Starts the copy of a host batch on the current stream. Tensors that no network reads stay on the host.
Batch CopyToDevice(Batch host, at::Device device);

}  // namespace dtrain::data
