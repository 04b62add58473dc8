// --mode=predict over image files: the likeliest classes of each, as a table.
#pragma once

#include <c10/core/Device.h>

#include "trainer/config/config.h"

namespace dtrain::loop {

// Whether --output names a table: FILE.csv or FILE.jsonl.
bool WantsTable(const config::Config& config);

// Writes it. Files that cannot be read have their line in it, and are counted aloud. Throws DataError where there is no
// image, or none that can be read.
void PredictImages(const config::Config& config, at::Device device);

}  // namespace dtrain::loop
