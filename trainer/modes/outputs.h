// Where the modes besides training write, checked before they begin, since they write at their end.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain::modes {

// Returns the files for the predictions of the validation sets, in the order of --val_split: --predictions, or
// FILE-SET.csv if there are several sets.
std::vector<std::string> PredictionsFiles(const config::Config& config);

// Throws UsageError if --output or --predictions of an evaluation would replace the results of another run than the
// evaluated one, the weights, or a file beside the data; StorageError if they cannot be written.
void RequireOutputsOfEvaluation(const config::Config& config);

// Throws UsageError if --output or --features of a prediction would replace what is read; StorageError as above.
void RequireOutputsOfPrediction(const config::Config& config);

}  // namespace dtrain::modes
