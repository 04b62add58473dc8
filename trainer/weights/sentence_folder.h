// The folders in which sentence-transformers keeps a model: an encoder as Hugging Face has it, with files that say how
// its tokens become the vector of a text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/text_options.h"
#include "trainer/config/config.h"

namespace dtrain::weights {

// Whether `path` is such a folder.
bool IsSentenceFolder(const std::string& path);

// With --task=sentence_embedding: takes what was not given of --pooling, --normalize_vectors and --tokens_per_sample
// from the folder --init_weights (to export: --input), and else a mean. Returns a sentence for the log; empty if there
// is no such folder. Throws UsageError that names a file if the model has a part that is not known here, such as
// another pooling, or if texts need a prompt in front of them.
std::string TakeSentenceFolder(config::Config& config);

// Returns the names and contents of the files that such a folder has beside the encoder. Prompts are those of --input.
std::vector<std::pair<std::string, std::string>> SentenceFolderFiles(const config::Config& config,
                                                                     const models::TextShape& shape);

}  // namespace dtrain::weights
