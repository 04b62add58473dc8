// Opens images with labels as the splits of a run.
#pragma once

#include <memory>

#include "data/sample_decoder.h"
#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

// TaskKind::OpenData for images.
DataSets OpenImageSets(const config::Config& config, const data::Classes& known, data::SharedIndexes* indexes);

// The decoder of encoded validation images.
std::unique_ptr<data::SampleDecoder> MakeEvaluationDecoder(const config::Config& config);

}  // namespace dtrain::tasks
