// Batch::deferred through nvJPEG, in libdtrain_cuda.so alone.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "data/image/interpolation.h"
#include "data/pipeline/device_batch.h"

namespace dtrain::data::nvjpeg {

// For `device`, which is the current one. Crops are decoded into memory of the caching allocator, at most so many at
// once as fit into half a GiB, and then resized by one kernel; nvJPEG's own buffers are of that allocator, too. Decode
// waits for the stream: it reads back which crops were written. Throws Unavailable (library.h) where nvJPEG is not on
// this machine or does not start.
std::unique_ptr<DeviceImageDecoder> MakeNvjpegDecoder(at::Device device, Interpolation interpolation);

}  // namespace dtrain::data::nvjpeg
