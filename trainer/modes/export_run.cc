// --mode=export: weights as other programs take them. Nothing is computed but names.
#include <ATen/ATen.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/registry.h"
#include "models/weight_names.h"
#include "trainer/checkpoint/store.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/errors.h"
#include "trainer/modes/export_tokenizer.h"
#include "trainer/modes/run.h"
#include "trainer/report/log.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {
namespace fs = std::filesystem;

// Of a run directory, a checkpoint, a file, or a folder of Hugging Face's.
TrainedWeights ReadExported(const std::string& path, const std::string& which) {
  std::error_code unreadable;
  const auto is_file = [&](const fs::path& place) { return fs::is_regular_file(place, unreadable); };
  const fs::path folder = path;
  const bool is_folder_of_weights = is_file(folder / "model.safetensors") && !is_file(folder / "manifest.json") &&
                                    !fs::exists(folder / "checkpoints", unreadable);
  if (is_file(folder) || is_folder_of_weights) {
    const WeightsPlace place = FindWeights(path);
    checkpoint::SafetensorsContent content = checkpoint::ReadSafetensors(place.file);
    const std::string& kept = content.metadata[kModelConfigKey];
    return {std::move(content.tensors), ClassesFrom(content.metadata, place.file), place.file,
            place.model_config.empty() ? kept : place.model_config};
  }
  if (!fs::exists(folder, unreadable)) {
    throw UsageError("--input=" + path + " is not there", "name a run's folder, a checkpoint or a safetensors file");
  }
  return ReadRunWeights(folder, which);
}

struct Exported {
  checkpoint::NamedTensors tensors;
  data::Classes classes;
  bool is_text = false;
  std::string naming;                   // torchvision | hf | fairseq
  models::RobertaOptions options = {};  // text
};

Exported Named(const TrainedWeights& weights, const config::Config& config) {
  Exported exported{.tensors = weights.tensors, .classes = weights.classes, .naming = config.model.weights_naming};
  exported.is_text = models::NamingOf(exported.tensors) != models::WeightNaming::kUnknown;
  if (exported.naming == "auto") exported.naming = exported.is_text ? "hf" : "torchvision";
  if (exported.is_text != (exported.naming != "torchvision")) {
    throw UsageError("--weights_naming=" + exported.naming + " is for " +
                         (exported.is_text ? "images, and these are weights of text" : "text, and these are not"),
                     exported.is_text ? "use hf or fairseq" : "use torchvision");
  }
  if (!exported.is_text) return exported;
  config::Config text = config;
  if (!models::IsRoberta(text.model.name)) text.model.name = "roberta";
  exported.options = RobertaOptionsOf(text, /*vocabulary=*/0, OutlineOf(weights.tensors, weights.model_config));
  exported.tensors = WithOwnNames(exported.tensors, text.model, config.run.input);
  return exported;
}

checkpoint::Metadata MetadataOf(const Exported& exported) {
  checkpoint::Metadata metadata = {{"format", "pt"}};
  AddTo(metadata, exported.classes);
  if (exported.is_text) metadata[kModelConfigKey] = models::ToJson(exported.options).dump();
  return metadata;
}

void WriteFile(const Exported& exported, const fs::path& path) {
  const bool fairseq = exported.naming == "fairseq";
  const auto tensors = fairseq ? models::ToFairseq(exported.tensors, exported.options.padding_id) : exported.tensors;
  if (path.extension() == ".safetensors") return checkpoint::WriteSafetensors(path, tensors, MetadataOf(exported));
  const bool hugging_face = exported.is_text && !fairseq;
  checkpoint::WriteTorchFile(path, hugging_face ? models::WithTiedDecoder(tensors) : tensors, fairseq ? "model" : "");
}

void WriteFolder(const Exported& exported, const config::Config& config, const fs::path& folder) {
  if (exported.naming != "hf") {
    throw UsageError("--output=" + folder.string() + " would be a folder, which has Hugging Face's names alone",
                     "end it in .safetensors or .pt for one file");
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw StorageError("cannot make the folder " + folder.string() + ": " + error.message());
  checkpoint::WriteAtomically(folder / "config.json", models::ToJson(exported.options).dump(2) + "\n");
  const auto tokenizer = FindTokenizerToExport({config.run.input, config.data.dir});
  if (tokenizer) {
    ExportTokenizer(*tokenizer, exported.options, folder);
  } else {
    report::LogWarning("no tokenizer was found with " + config.run.input +
                       ": the folder has none; --data_dir names the data that the model was trained on");
  }
  checkpoint::WriteSafetensors(folder / "model.safetensors", exported.tensors, {{"format", "pt"}});
}

}  // namespace

void Export(const RunContext& context) {
  const config::Config& config = context.config;
  if (context.launch.world_size > 1) {
    throw UsageError("--mode=export runs on one rank", "leave out --nproc_per_node and the launcher");
  }
  const Exported exported = Named(ReadExported(config.run.input, config.run.weights), config);
  const fs::path path = config.run.output;
  const std::string extension = path.extension().string();
  const bool is_file = extension == ".safetensors" || extension == ".pt" || extension == ".pth";
  if (is_file) {
    WriteFile(exported, path);
  } else {
    WriteFolder(exported, config, path);
  }
}

}  // namespace dtrain::loop
