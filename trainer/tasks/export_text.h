// --mode=export for models of text.
#pragma once

#include "models/text_options.h"
#include "trainer/config/config.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {

// Writes the weights to --output: a file under the names of Hugging Face or fairseq, or a folder that transformers
// loads, with the tokenizer if one is found. Throws UsageError if --weights_naming is that of images.
// `head`: that of a classifier; null for a masked language model.
void ExportText(weights::TrainedWeights weights, const config::Config& config, bool to_file,
                const models::ClassifierOptions* head = nullptr);

}  // namespace dtrain::tasks
