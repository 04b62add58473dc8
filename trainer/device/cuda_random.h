// The random numbers of kernels of this project, from LibTorch's generator. So they follow its seed, its saved states,
// and recorded graphs. Part of libdtrain_cuda.so.
#pragma once

#include "models/kernels/philox.h"

namespace dtrain::device {

// Takes numbers for one launch from the default generator of the current device.
models::kernels::RandomState CudaRandom();

}  // namespace dtrain::device
