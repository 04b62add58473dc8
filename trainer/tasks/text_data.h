// Opens text (token files with their dictionary, or safetensors files of token ids) as the splits of a run.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::loop {

// Returns the folders of --data_dir=a:b:c, with which epochs take turns as in fairseq. A path that exists is one
// folder.
std::vector<std::string> TextFolders(const std::string& data_dir);

// TaskKind::OpenData for text. num_classes is the size of the vocabulary, <mask> included.
DataSets OpenTextSets(const config::Config& config);

}  // namespace dtrain::loop
