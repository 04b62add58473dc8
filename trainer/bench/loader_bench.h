// dtrain_bench loader: measures the real loader on the training split, without a model. It can also dump a batch, so
// that people see how their images are decoded and cropped.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/config/config.h"

namespace dtrain::bench {

// The key in a dump's metadata, by which it is known again and may be replaced.
inline constexpr char kDumpedBy[] = "dumped_by";

struct LoaderBenchOptions {
  int64_t warmup = 3;     // batches before the clock starts
  int64_t batches = 10;   // batches timed
  double seconds = 0;     // > 0: time batches for this long instead
  bool as_float = false;  // also convert to normalised float32 N×3×H×W, as a model takes them
  std::string dump = {};  // safetensors file for the first batch; empty: no dump
};

// Returns images_per_second, images_per_processor_second, batch_milliseconds (mean), resident_mib (the memory of this
// process at eleven times, evenly spread), the settings, and the machine. Throws UsageError if the data is not images,
// and the errors of opening and reading it.
//
// The dump holds uint8 `images` N×H×W×3 before normalisation (float32 data as it is stored), int64 `labels` and `index`
// (the position in the source), int32 `crop` N×4 (x, y, width, height in source pixels) and uint8 `flip`.
nlohmann::ordered_json BenchLoader(const config::Config& config, const LoaderBenchOptions& options);

}  // namespace dtrain::bench
