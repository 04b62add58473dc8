// --mode=export: writes weights under the names and in the files of other programs. No model is run.
#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/outputs.h"
#include "data/text/dictionary.h"
#include "models/image_weight_names.h"
#include "models/registry.h"
#include "models/weight_names.h"
#include "trainer/checkpoint/store.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/errors.h"
#include "trainer/modes/export_tokenizer.h"
#include "trainer/modes/run.h"
#include "trainer/modes/timm_folder.h"
#include "trainer/report/log.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/roberta_model.h"
#include "trainer/weights/state_dict_order.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::loop {
namespace {
namespace fs = std::filesystem;

// Reads the weights of a run directory, a checkpoint, a file, or a Hugging Face folder.
TrainedWeights ReadExported(const std::string& path, const std::string& which) {
  std::error_code unreadable;
  const auto is_file = [&](const fs::path& place) { return fs::is_regular_file(place, unreadable); };
  const fs::path folder = path;
  const bool is_run = is_file(folder / "manifest.json") || fs::exists(folder / "checkpoints", unreadable);
  const bool is_folder_of_weights = !is_run && HoldsWeights(path);
  if (is_file(folder) || is_folder_of_weights) {
    const WeightsPlace place = FindWeights(path);
    checkpoint::SafetensorsContent content = ReadWeightsFile(place.file, which);
    const std::string& kept = content.metadata[kModelConfigKey];
    return {std::move(content.tensors), ClassesFrom(content.metadata, place.file), place.file,
            place.model_config.empty() ? kept : place.model_config};
  }
  if (!fs::exists(folder, unreadable)) {
    throw UsageError("--input=" + path + " does not exist", "name a run's folder, a checkpoint or a file of weights");
  }
  return ReadRunWeights(folder, which);
}

struct Exported {
  checkpoint::NamedTensors tensors;  // under the names that they have here
  data::Classes classes;
  std::string naming;                   // torchvision | timm | hf | fairseq
  std::string image_model;              // empty: a text model, or no model that is known here
  models::RobertaOptions options = {};  // text

  bool is_text() const { return naming == "hf" || naming == "fairseq"; }
};

[[noreturn]] void RefuseNaming(const std::string& naming, bool is_text) {
  throw UsageError("--weights_naming=" + naming + " is for " +
                       (is_text ? "images, but these are weights of text" : "text, but these are not"),
                   is_text ? "use hf or fairseq" : "use torchvision or timm");
}

Exported NamedText(const TrainedWeights& weights, const config::Config& config) {
  Exported exported{
      .tensors = weights.tensors, .classes = {}, .naming = config.model.weights_naming, .image_model = ""};
  if (exported.naming == "auto") exported.naming = "hf";
  if (!exported.is_text()) RefuseNaming(exported.naming, /*is_text=*/true);
  config::Config text = config;
  if (!models::IsRoberta(text.model.name)) text.model.name = "roberta";
  exported.options = RobertaOptionsOf(text, /*vocabulary=*/0, OutlineOf(weights.tensors, weights.model_config));
  exported.tensors = WithOwnNames(exported.tensors, text.model, config.run.input);
  return exported;
}

Exported NamedImages(const TrainedWeights& weights, const config::Config& config, bool to_folder) {
  const std::string& said = config.model.weights_naming;
  Exported exported{.tensors = weights.tensors,
                    .classes = weights.classes,
                    .naming = said != "auto" ? said
                              : to_folder    ? "timm"
                                             : "torchvision",
                    .image_model = ""};
  if (exported.is_text()) RefuseNaming(exported.naming, /*is_text=*/false);
  exported.image_model = models::RecognisedModel(models::FromTimm(weights.tensors, models::kTimmEpsilon));
  if (!exported.image_model.empty()) {
    exported.tensors = models::FromTimm(weights.tensors, models::NormEpsilon(exported.image_model));
  } else if (exported.naming == "timm" || models::HaveTimmNames(weights.tensors)) {
    throw UsageError(config.run.input + " does not hold the weights of a known model",
                     "only the weights of ResNets and EfficientNets can be renamed");
  }
  return exported;
}

Exported Named(TrainedWeights weights, const config::Config& config, bool to_folder) {
  TakeOffWrappers(weights.tensors);
  const bool is_text = models::NamingOf(weights.tensors) != models::WeightNaming::kUnknown;
  return is_text ? NamedText(weights, config) : NamedImages(weights, config, to_folder);
}

// Returns the tensors under the names that were asked for, in the order of that program's state_dict. timm's order is
// that of torchvision's names.
checkpoint::NamedTensors Renamed(const Exported& exported) {
  const checkpoint::NamedTensors tensors = InStateDictOrder(exported.tensors);
  if (exported.naming == "fairseq") return InStateDictOrder(models::ToFairseq(tensors, exported.options.padding_id));
  if (exported.naming == "timm") return models::ToTimm(tensors, models::NormEpsilon(exported.image_model));
  return tensors;
}

checkpoint::Metadata MetadataOf(const Exported& exported) {
  checkpoint::Metadata metadata = {{"format", "pt"}};
  AddTo(metadata, exported.classes);
  if (exported.is_text()) metadata[kModelConfigKey] = models::ToJson(exported.options).dump();
  return metadata;
}

void WriteFile(const Exported& exported, const fs::path& path) {
  const checkpoint::NamedTensors tensors = Renamed(exported);
  if (path.extension() == ".safetensors") return checkpoint::WriteSafetensors(path, tensors, MetadataOf(exported));
  const bool hugging_face = exported.naming == "hf", fairseq = exported.naming == "fairseq";
  checkpoint::WriteTorchFile(path, hugging_face ? models::WithTiedDecoder(tensors) : tensors, fairseq ? "model" : "");
}

// Tokens that the tokenizer makes and the model never met get the row of <unk>, and are never guessed.
void AddUnknownTokens(const ExportedTokenizer& vocabulary, Exported& exported) {
  constexpr double kNeverGuessed = -1e4;
  if (vocabulary.all == vocabulary.known) return;
  const int64_t rows = std::max(vocabulary.all, exported.options.vocab_size), added = rows - vocabulary.known;
  for (auto& [name, tensor] : exported.tensors) {
    const at::Tensor known = tensor.slice(0, 0, vocabulary.known);
    if (name == "lm_head.bias") tensor = at::cat({known, at::full({added}, kNeverGuessed, tensor.options())});
    if (name == "roberta.embeddings.word_embeddings.weight") {
      tensor = at::cat({known, tensor.slice(0, data::kUnknownToken, data::kUnknownToken + 1).expand({added, -1})});
    }
  }
  exported.options.vocab_size = rows;
}

// Every exported config.json has this key, which other programs skip: later exports may replace the folder's files.
constexpr char kExportedBy[] = "exported_by";

bool HoldsExport(const std::string& folder) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const fs::path file = fs::path(folder) / "config.json";
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable)) return false;
  const auto json = nlohmann::json::parse(checkpoint::ReadTextFile(file, kMostBytes), nullptr,
                                          /*allow_exceptions=*/false);
  return json.is_object() && json.contains(kExportedBy);
}

// Written first, so that the folder is known as an export even if this one is interrupted.
void WriteConfig(const fs::path& folder, nlohmann::ordered_json json) {
  json[kExportedBy] = "dtrain";
  checkpoint::WriteAtomically(folder / "config.json", json.dump(2) + "\n");
}

void WriteTextFolder(Exported& exported, const config::Config& config, const fs::path& folder) {
  const auto tokenizer = FindTokenizerToExport({config.run.input, config.data.dir});
  ExportedTokenizer exported_tokenizer;
  if (tokenizer) {
    exported_tokenizer = ExportTokenizer(*tokenizer, exported.options);
    AddUnknownTokens(exported_tokenizer, exported);
  } else {
    report::LogWarning("no tokenizer was found with " + config.run.input +
                       ": the folder will have none; name the data that the model was trained on with --data_dir");
  }
  WriteConfig(folder, models::ToJson(exported.options));
  for (const auto& [name, content] : exported_tokenizer.files) checkpoint::WriteAtomically(folder / name, content);
}

void WriteFolder(Exported exported, const config::Config& config, const fs::path& folder) {
  if (exported.naming != "hf" && exported.naming != "timm") {
    throw UsageError(
        "--output=" + folder.string() + " names a folder, which can only have the names of Hugging Face or timm",
        "for a single file, end its name in .safetensors or .pt");
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw StorageError("cannot make the folder " + folder.string() + ": " + error.message());
  if (exported.naming == "hf") {
    WriteTextFolder(exported, config, folder);
  } else {
    const int64_t num_classes = NumClassesOf(exported.tensors, exported.image_model);
    WriteConfig(folder, TimmConfig(exported.image_model, num_classes, exported.classes, config.image));
  }
  checkpoint::WriteSafetensors(folder / "model.safetensors", Renamed(exported), MetadataOf(exported));
}

// Whether --output names a file of weights, not a folder. Throws UsageError if it ends like a file of another kind.
bool NamesFile(const fs::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".safetensors" || ending == ".pt" || ending == ".pth") return true;
  std::error_code unreadable;
  const bool begins_with_letter = ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1])) != 0;
  if (!begins_with_letter || fs::is_directory(path, unreadable)) return false;
  throw UsageError("--output=" + path.string() + " ends like a file, but " + ending + " files cannot be written",
                   ending == ".onnx"
                       ? "export to FILE.pt, load it in PyTorch (docs/weights.md), and call torch.onnx.export"
                       : "end the name in .safetensors, .pt or .pth; for a folder of this name, end it in /");
}

void RequireOtherOutput(const config::Config& config, bool is_file) {
  std::vector<std::string> read = {config.run.input, config.data.dir};
  if (HoldsWeights(config.run.input)) read.push_back(FindWeights(config.run.input).file);
  if (is_file) return data::RequireOtherFile(config.run.output, read);
  data::RequireOwnFolder(config.run.output, read, HoldsExport);
  data::RequireOtherFile((fs::path(config.run.output) / "model.safetensors").string(), read);
}

}  // namespace

void Export(const RunContext& context) {
  const config::Config& config = context.config;
  if (context.launch.world_size > 1) {
    throw UsageError("--mode=export runs on one rank", "leave out --nproc_per_node and the launcher");
  }
  report::InitializeLogging(context.launch.rank, context.launch.world_size, /*log_directory=*/"");
  for (const std::string& note : context.notes) report::LogInfo(note);
  const fs::path path = config.run.output;
  const bool is_file = NamesFile(path);
  RequireOtherOutput(config, is_file);
  TrainedWeights weights = ReadExported(config.run.input, config.run.weights);
  report::LogInfo("exporting " + weights.origin);
  Exported exported = Named(std::move(weights), config, /*to_folder=*/!is_file);
  if (is_file) {
    WriteFile(exported, path);
  } else {
    WriteFolder(std::move(exported), config, path);
  }
}

}  // namespace dtrain::loop
