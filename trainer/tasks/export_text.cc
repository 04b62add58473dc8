#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "data/text/dictionary.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/export_files.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/sentence_folder.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
namespace {

struct ExportedText {
  checkpoint::NamedTensors tensors;  // under the names that they have here
  models::TextOptions options;
  const models::ClassifierOptions* head;  // null for a masked language model
  std::string model;

  bool is_encoder() const { return head != nullptr && head->absent; }
  const models::TextFamily& family() const { return models::FamilyOf(model).text; }
  nlohmann::ordered_json ConfigJson() const { return options.ToJson(head); }
};

std::string TextNaming(const std::string& said) {
  if (said == "torchvision" || said == "timm") RefuseNaming(said, /*is_text=*/true);
  return said == "auto" ? "hf" : said;
}

ExportedText NamedText(const weights::TrainedWeights& weights, const config::Config& config,
                       const models::ClassifierOptions* head) {
  const std::string& model = config.model.name;
  return {weights::WithOneHead(weights::WithOwnNames(weights.tensors, config.model, config.run.input), config.model,
                               head == nullptr ? models::WordHeadName(model)
                               : head->absent  ? ""
                                               : models::ClassifierName(model),
                               config.run.input),
          weights::TextOptionsOf(config, /*tokens=*/{}, weights::OutlineOf(weights.tensors, weights.model_config)),
          head, model};
}

// Returns the tensors under the names that were asked for, in the order of that program's state_dict.
checkpoint::NamedTensors Renamed(const ExportedText& exported, const std::string& naming) {
  checkpoint::NamedTensors tensors = InStateDictOrder(exported.tensors, exported.model);
  const std::string backbone = exported.family().backbone + ".";
  for (auto& [name, tensor] : tensors) {
    if (exported.is_encoder() && name.starts_with(backbone)) name.erase(0, backbone.size());
  }
  if (naming != "fairseq") return tensors;
  return InStateDictOrder(exported.family().fairseq_names(tensors, exported.options.shape), exported.model);
}

// Tokens that the tokenizer makes and the model never met get the row of <unk>, and are never guessed.
void AddUnknownTokens(const ExportedTokenizer& vocabulary, ExportedText& exported) {
  constexpr double kNeverGuessed = -1e4;
  if (vocabulary.all == vocabulary.known) return;
  int64_t& words = exported.options.shape.vocab_size;
  const int64_t rows = std::max(vocabulary.all, words), added = rows - vocabulary.known;
  for (auto& [name, tensor] : exported.tensors) {
    if (std::ranges::count(exported.family().word_rows, name) == 0) continue;
    const at::Tensor more = tensor.dim() == 1
                                ? at::full({added}, kNeverGuessed, tensor.options())  // a bias of scores
                                : tensor.slice(0, data::kUnknownToken, data::kUnknownToken + 1).expand({added, -1});
    tensor = at::cat({tensor.slice(0, 0, vocabulary.known), more});
  }
  words = rows;
}

// Writes config.json and the tokenizer's files, and makes the model fit the tokenizer.
void WriteTextFolder(ExportedText& exported, const config::Config& config, const std::filesystem::path& folder) {
  const auto tokenizer = FindTokenizerToExport({config.run.input, config.data.dir});
  ExportedTokenizer exported_tokenizer;
  if (tokenizer) {
    exported_tokenizer = ExportTokenizer(*tokenizer, exported.options.shape, exported.family().tokenizer);
    AddUnknownTokens(exported_tokenizer, exported);
    if (exported.head != nullptr && exported.head->of_tokens) PutSpacesBeforeWords(exported_tokenizer);
  } else {
    report::LogWarning("no tokenizer was found with " + config.run.input +
                       ": the folder will have none; name the data that the model was trained on with --data_dir");
  }
  BeginExportFolder(folder, exported.ConfigJson());
  for (const auto& [name, content] : exported_tokenizer.files) checkpoint::WriteAtomically(folder / name, content);
  if (!exported.is_encoder()) return;
  for (const auto& [name, content] : weights::SentenceFolderFiles(config.text, exported.options.shape.hidden_size)) {
    MakeFolder((folder / name).parent_path());
    checkpoint::WriteAtomically(folder / name, content);
  }
}

}  // namespace

void ExportText(weights::TrainedWeights weights, const config::Config& config, bool to_file,
                const models::ClassifierOptions* head) {
  std::filesystem::path path = config.run.output;
  const std::string naming = TextNaming(config.model.weights_naming);
  ExportedText exported = NamedText(weights, config, head);
  const bool is_of_fairseq = head == nullptr || !(head->of_tokens || head->absent);
  if (naming == "fairseq" && (exported.family().fairseq_names == nullptr || !is_of_fairseq)) {
    throw UsageError("--weights_naming=fairseq: fairseq has no such model as --model=" + exported.model +
                         (is_of_fairseq  ? ""
                          : head->absent ? " for vectors of texts"
                                         : " with labels of tokens"),
                     "use hf");
  }
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
  if (naming == "fairseq") return checkpoint::WriteTorchFile(path, tensors, kExportedBy, "model");
  const auto& with_tied_decoder = exported.family().with_tied_decoder;
  const auto all = with_tied_decoder == nullptr ? tensors : with_tied_decoder(tensors);
  checkpoint::WriteTorchFile(path, InStateDictOrder(all, exported.model), kExportedBy, "");
}

}  // namespace dtrain::tasks
