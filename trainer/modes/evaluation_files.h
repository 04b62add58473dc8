// The files of an evaluation. They lie in a folder of their own, RUN/eval-SPLIT, since a run can be evaluated on
// several sets, its training split among them, and none of these is the run's own result.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/report/points.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::modes {

// Returns the name of the folder of a set's files, eval-SPLIT; eval-held_out for the held-out part of any split.
std::string EvaluationFolder(std::string set);

// Writes result.json, and confusion_matrix.csv and class_accuracy.csv where confusions were counted, of each set (the
// one that decides first, with the others in its `further`), into eval-SPLIT of the run directory, or of --output;
// there, and in a directory that is no run's, the files of the first set lie in the folder itself. An empty run
// directory and no --output: writes nothing. Throws StorageError if --output cannot be written; if the run cannot, only
// warns, so that the evaluation does not fail.
void KeepEvaluation(const report::RunResult& result, const tasks::DataSets& data, const config::Config& config,
                    const std::string& run_directory);

}  // namespace dtrain::modes
