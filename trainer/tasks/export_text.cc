#include "trainer/tasks/export_text.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "data/text/dictionary.h"
#include "models/registry.h"
#include "models/weight_names.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/export_files.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/roberta_model.h"
#include "trainer/weights/state_dict_order.h"

namespace dtrain::tasks {
namespace {

struct ExportedText {
  checkpoint::NamedTensors tensors;  // under the names that they have here
  models::RobertaOptions options;
  const models::ClassifierOptions* head;  // null for a masked language model

  nlohmann::ordered_json ConfigJson() const { return head ? models::ToJson(options, *head) : models::ToJson(options); }
};

std::string TextNaming(const std::string& said) {
  if (said == "torchvision" || said == "timm") RefuseNaming(said, /*is_text=*/true);
  return said == "auto" ? "hf" : said;
}

ExportedText NamedText(const weights::TrainedWeights& weights, config::Config config,
                       const models::ClassifierOptions* head) {
  if (!models::ReadsText(config.model.name)) config.model.name = "roberta";
  return {
      weights::WithOneHead(weights::WithOwnNames(weights.tensors, config.model, config.run.input), config.model,
                           head ? "classifier" : "lm_head", config.run.input),
      weights::RobertaOptionsOf(config, /*vocabulary=*/0, weights::OutlineOf(weights.tensors, weights.model_config)),
      head};
}

// Returns the tensors under the names that were asked for, in the order of that program's state_dict.
checkpoint::NamedTensors Renamed(const ExportedText& exported, const std::string& naming) {
  const checkpoint::NamedTensors tensors = weights::InStateDictOrder(exported.tensors);
  if (naming == "fairseq") return weights::InStateDictOrder(models::ToFairseq(tensors, exported.options.padding_id));
  return tensors;
}

// Tokens that the tokenizer makes and the model never met get the row of <unk>, and are never guessed.
void AddUnknownTokens(const ExportedTokenizer& vocabulary, ExportedText& exported) {
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

// Writes config.json and the tokenizer's files, and makes the model fit the tokenizer.
void WriteTextFolder(ExportedText& exported, const config::Config& config, const std::filesystem::path& folder) {
  const auto tokenizer = FindTokenizerToExport({config.run.input, config.data.dir});
  ExportedTokenizer exported_tokenizer;
  if (tokenizer) {
    exported_tokenizer = ExportTokenizer(*tokenizer, exported.options);
    AddUnknownTokens(exported_tokenizer, exported);
  } else {
    report::LogWarning("no tokenizer was found with " + config.run.input +
                       ": the folder will have none; name the data that the model was trained on with --data_dir");
  }
  BeginExportFolder(folder, exported.ConfigJson());
  for (const auto& [name, content] : exported_tokenizer.files) checkpoint::WriteAtomically(folder / name, content);
}

}  // namespace

void ExportText(weights::TrainedWeights weights, const config::Config& config, bool to_file,
                const models::ClassifierOptions* head) {
  std::filesystem::path path = config.run.output;
  const std::string naming = TextNaming(config.model.weights_naming);
  ExportedText exported = NamedText(weights, config, head);
  if (!to_file && naming != "hf") RefuseFolder(path);
  if (config.run.dry_run) return;
  if (!to_file) {
    WriteTextFolder(exported, config, path);
    path /= "model.safetensors";
  }
  const checkpoint::NamedTensors tensors = Renamed(exported, naming);
  if (path.extension() == ".safetensors") {
    checkpoint::Metadata metadata = {
        {"format", "pt"}, {kExportedBy, "dtrain"}, {weights::kModelConfigKey, exported.ConfigJson().dump()}};
    if (head != nullptr) weights::AddTo(metadata, weights.classes);
    return checkpoint::WriteSafetensors(path, tensors, metadata);
  }
  const bool fairseq = naming == "fairseq";
  checkpoint::WriteTorchFile(path, fairseq ? tensors : models::WithTiedDecoder(tensors), kExportedBy,
                             fairseq ? "model" : "");
}

}  // namespace dtrain::tasks
