// --mode=export for images and for text, and what they have in common: the file or folder that they write.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "data/record_source.h"
#include "models/text_options.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {

// Exported files have this key in their metadata or as a record, an exported config.json among its keys. Other programs
// skip it, and a later export may replace what has it.
inline constexpr char kExportedBy[] = "exported_by";

// Makes the folder, and those that it is in. Throws StorageError.
void MakeFolder(const std::filesystem::path& folder);

// Makes the folder and writes its config.json, before anything else is written into it: the file says that the folder
// is an export, which a later one may replace. Throws StorageError.
void BeginExportFolder(const std::filesystem::path& folder, nlohmann::ordered_json config_json);

// Whether BeginExportFolder was called for this folder.
bool HoldsExport(const std::string& folder);

// Throws UsageError for a naming that only single files have.
[[noreturn]] void RefuseFolder(const std::filesystem::path& folder);

// Throws UsageError for a naming of the other kind of models.
[[noreturn]] void RefuseNaming(const std::string& naming, bool is_text);

// Returns the tensors of a `model` in the order in which torchvision's, Hugging Face's and fairseq's models (not
// timm's) list them (models::Family::name_order); of an unknown one (empty) as any of the families would. Checkpoints
// here are sorted by name, but PyTorch's programs keep the order of a model's modules, and people compare files by it.
checkpoint::NamedTensors InStateDictOrder(checkpoint::NamedTensors tensors, const std::string& model);

// Writes the weights to --output: a file under the names of torchvision, timm or Hugging Face, or a folder that timm or
// transformers loads. Throws UsageError if --weights_naming is that of text, or if unknown weights were to be renamed.
// Numbers that are predicted are then those of the labels, for programs that know nothing of a scale.
void ExportImages(weights::TrainedWeights weights, data::LabelKind labels, const config::Config& config, bool to_file);

// The same for models of text: a file under the names of Hugging Face or fairseq, or a folder that transformers loads,
// with the tokenizer if one is found. `head`: that of a classifier; null for a masked language model.
void ExportText(weights::TrainedWeights weights, const config::Config& config, bool to_file,
                const models::ClassifierOptions* head);

}  // namespace dtrain::tasks
