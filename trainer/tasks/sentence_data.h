// Opens labelled sentences and pairs of sentences as the splits of a run.
#pragma once

#include <string>

#include "data/pipeline/batch.h"
#include "data/sentences/sentence_split.h"
#include "trainer/config/config.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::tasks {

// TaskKind::OpenData for sentences. Warns of truncated rows and of rows that are left out.
DataSets OpenSentenceSets(const config::Config& config, data::SentenceTarget target, const data::Classes& known);

// What the flags say of sentences. The tokenizer is looked for beside the weights, in the run directory and beside the
// data.
data::SentenceOptions SentenceOptionsOf(const config::Config& config, data::SentenceTarget target);

// Whether rows of a split have a number that is learned: a score, if they are several texts.
bool HasNumbers(const DataSplit& split);

// Warns of rows that were truncated or left out; `name` is of the split or the file.
void WarnOfCutRows(const data::SentenceSplit& split, const std::string& name);

// Whether --data_dir holds sentences.
bool HoldsSentences(const config::DataConfig& config);

// Where a tokenizer may be: beside the weights and the data, and with the run.
std::vector<std::string> TokenizerPaths(const config::Config& config);

// Returns what their labels are. Throws DataError as data::LooksLikeRegression does.
data::SentenceTarget TargetHeld(const config::Config& config);

// Returns rows [first, end) as the loader makes them, padded to the longest one.
data::Batch RowsOf(const data::SentenceSplit& split, int64_t first, int64_t end);

}  // namespace dtrain::tasks
