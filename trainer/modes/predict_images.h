// --mode=predict for image files: writes a table with the likeliest classes of each.
#pragma once

#include <c10/core/Device.h>

#include "trainer/config/config.h"

namespace dtrain::loop {

// Whether --output names a table, that is, FILE.csv or FILE.jsonl.
bool WantsTable(const config::Config& config);

// Writes the table. A file that cannot be read gets a line with the reason; a warning gives their number. Throws
// DataError if --input holds no image, or none that can be read.
void PredictImages(const config::Config& config, at::Device device);

}  // namespace dtrain::loop
