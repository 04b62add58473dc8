// --mode=export: the file or folder that images and texts write.
#pragma once

#include <string>

#include "data/record_source.h"
#include "models/text_options.h"
#include "trainer/config/config.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {

// Exported files have this key in their metadata or as a record, an exported config.json among its keys. Other programs
// skip it, and a later export may replace what has it.
using weights::kExportedBy;

bool HoldsExport(const std::string& folder);

// Writes the weights to --output: a file under the names of torchvision, timm or Hugging Face, or a folder that timm or
// transformers loads. Throws UsageError if --weights_naming is that of text, or if unknown weights were to be renamed.
// Numbers that are predicted are then those of the labels, for programs that know nothing of a scale.
void ExportImages(weights::TrainedWeights weights, data::LabelKind labels, config::Config config, bool to_file);

// The same for models of text: a file under the names of Hugging Face or fairseq, or a folder that transformers loads,
// with the tokenizer if one is found.
void ExportText(weights::TrainedWeights weights, const config::Config& config, bool to_file,
                const models::TextHead& head);

}  // namespace dtrain::tasks
