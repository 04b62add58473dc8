// Where the modes write what flags name, checked before they begin, since most of it is written at their end.
#pragma once

#include <string>
#include <vector>

#include "data/outputs.h"
#include "trainer/config/config.h"

namespace dtrain::modes {

// Returns the files for the predictions of the validation sets, in the order of --val_split: --predictions, or
// FILE-SET.csv if there are several sets.
std::vector<std::string> PredictionsFiles(const config::Config& config);

// Returns the name of the folder of the files of an evaluated set, eval-SPLIT; eval-held_out for the held-out part of
// any split.
std::string EvaluationFolder(std::string set);

// Whether --mode=export writes a file of weights to `output`, not a folder. Throws UsageError if it ends like a file of
// another kind.
bool ExportsFile(const std::string& output);

// Returns the files and folders that the flags of `config` name for reading, and those outputs that lie in the folder
// of the data of an evaluation, or of the weights of an export: if they exist, they are read.
std::vector<std::string> InputsOf(const config::Config& config, const std::vector<data::Output>& outputs);

// Passes all that the flags of `config` name for writing through data::RequireOutputs, whose Error it throws. Throws
// UsageError if a new run would lie in a split of the data, and StorageError if a place cannot be written.
void RequireOutputs(const config::Config& config);

}  // namespace dtrain::modes
