// dtrain_bench loader: the real loader on the training split, without a model. Also the door through which others see
// what it makes of their images.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/config/config.h"

namespace dtrain::loop {

struct LoaderBenchOptions {
  int64_t warmup = 3;     // batches before the clock starts
  int64_t batches = 10;   // batches timed
  double seconds = 0;     // > 0: for so long, instead
  bool as_float = false;  // normalised float32 N×3×H×W, as a model takes them, rather than uint8
  std::string dump = {};  // a safetensors file for the first batch; empty: none
};

// images_per_second, batch_milliseconds (mean), resident_mib (memory of this process, eleven times at equal intervals),
// what was measured, and the machine. Throws UsageError for anything but images.
//
// The dump has uint8 `images` N×H×W×3 before normalisation (float32 data: as it is), int64 `labels` and `index` (the
// position in the source), int32 `crop` N×4 (x, y, width, height in source pixels) and uint8 `flip`.
nlohmann::ordered_json BenchLoader(const config::Config& config, const LoaderBenchOptions& options);

}  // namespace dtrain::loop
