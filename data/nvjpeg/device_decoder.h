// Decodes Batch::deferred through nvJPEG. It is linked into libdtrain_cuda.so only.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "data/image/interpolation.h"
#include "data/pipeline/device_batch.h"

namespace dtrain::data::nvjpeg {

// Makes a decoder for `device`, which must be the current one. Crops are decoded into memory of the caching allocator,
// at most half a GiB of them at once (or one larger crop), and then resized by one kernel; nvJPEG's own buffers come
// from that allocator, too. Decode waits for the stream, because it reads back which crops were written. Throws
// Unavailable (library.h) if nvJPEG is not on this machine or does not start.
std::unique_ptr<DeviceImageDecoder> MakeNvjpegDecoder(at::Device device, Interpolation interpolation);

}  // namespace dtrain::data::nvjpeg
