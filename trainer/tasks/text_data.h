// Opens text (token files with their dictionary, or safetensors files of token ids) as the splits of a run.
#pragma once

#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// TaskKind::OpenData for text. num_classes is the size of the vocabulary, <mask> included.
DataSets OpenTextSets(const config::Config& config);

}  // namespace dtrain::loop
