#include "trainer/tasks/export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/joined.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/dictionary.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/sentence_folder.h"
#include "trainer/weights/text_model.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {
namespace {

// ---- What images and text have in common ----

// Makes the folder and writes its config.json, before anything else is written into it: the file says that the folder
// is an export, which a later one may replace.
void BeginExportFolder(const std::filesystem::path& folder, nlohmann::ordered_json config_json) {
  checkpoint::MakeFolder(folder);
  config_json[kExportedBy] = "dtrain";
  checkpoint::WriteAtomically(folder / "config.json", config_json.dump(2) + "\n");
}

[[noreturn]] void RefuseFolder(const std::filesystem::path& folder) {
  throw UsageError(
      "--output=" + folder.string() + " names a folder, which can only have the names of Hugging Face or timm",
      "for a single file, end its name in .safetensors or .pt");
}

// Throws UsageError for a --weights_naming of the other kind of models.
void RequireNamingOf(bool is_text, const std::string& naming) {
  if (naming == "auto" || naming == "hf" || is_text == (naming == "fairseq")) return;
  throw UsageError("--weights_naming=" + naming + " is for " +
                       (is_text ? "images, but these are weights of text" : "text, but these are not"),
                   is_text ? "use hf or fairseq" : "use torchvision or timm");
}

// ---- Images ----

std::vector<std::string> ImageFamilies() {
  std::vector<std::string> names;
  for (const models::Family& family : models::Families()) {
    if (family.input == models::Input::kImages) names.push_back(family.name);
  }
  return names;
}

// Others' models may have the blocks of one that is known here and further parts, or parts of another width.
void RequireWhole(const models::Model& model, const config::Config& config, checkpoint::NamedTensors& tensors) {
  config::ModelConfig built = config.model;
  built.name = model.name;
  const int64_t rows = weights::NumClassesOf(tensors, model.name);
  const auto make = [&] { return model.make({.num_classes = std::max<int64_t>(1, rows)}); };
  tensors = weights::WholeWeights(tensors, built, make, config.run.input);
}

// Returns the model that the weights are of, --model if they can be, and gives them the names that they have here. Null
// for a model that is unknown here, whose weights keep their names.
const models::Model* RecogniseAndRename(checkpoint::NamedTensors& tensors, const std::string& naming,
                                        const config::Config& config) {
  const models::Model* model = models::RecognisedImageModel(tensors, config.model.name);
  if (model != nullptr) {
    const auto own_names = models::FamilyOf(model->name).own_names;
    if (own_names != nullptr) tensors = own_names(tensors, weights::AsBuilt(*model, config.model), nullptr);
    RequireWhole(*model, config, tensors);
  } else if (naming == "timm" || models::NamingIn(models::ShapesOf(tensors)) == "timm") {
    throw UsageError(config.run.input + " does not hold the weights of a known model" +
                         (tensors.empty() ? "" : "; it has " + Shown(tensors.front().first, 200)),
                     "only the weights of " + Joined(ImageFamilies(), " and ") + " can be renamed");
  }
  return model;
}

// The program that reads the names builds the model with an ε of its own, which variances make up for; the settings say
// that ε then. Norms without variances cannot.
void CarryEpsilon(const models::Model& model, const std::string& naming, bool to_file,
                  checkpoint::NamedTensors& tensors, config::Config& config) {
  const double ours = weights::AsBuilt(model, config.model).norm_epsilon;
  const double theirs = naming == "timm" ? model.timm_norm_epsilon : model.norm_epsilon;
  if (models::MoveEpsilon(tensors, ours - theirs)) {
    if (config.model.bn_eps) config.model.bn_eps = theirs;
  } else if (ours != theirs && (to_file || naming != "hf")) {  // a folder for transformers tells or is refused
    report::LogWarning("the epsilon of the norms, " + config::ToText(ours) +
                       ", is not in the weights: a program with " + config::ToText(theirs) +
                       " computes something else with these");
  }
}

int64_t EvalResize(const config::ImageConfig& image) {
  return image.eval_resize > 0 ? image.eval_resize : config::DefaultEvalResize(config::EvalImageSize(image));
}

// Returns the part of the resized short side that the crop takes, from which timm computes ⌊side / part⌋ again.
double CropPart(int64_t side, int64_t resized) {
  const double part = static_cast<double>(side) / static_cast<double>(resized);
  const auto again = static_cast<int64_t>(static_cast<double>(side) / part);
  return again < resized ? std::nextafter(part, 0.0) : part;
}

// Whether the positions of a transformer's weights, which are of its native size, are resized for its images.
bool ResizesPositions(const models::Model& model, const config::ImageConfig& image) {
  return model.size_multiple > 1 && config::EvalImageSize(image) != model.image_size;
}

// transformers' own models resize positions only where their caller asks for that.
void RequireNativePositions(const models::Model& model, const config::ImageConfig& image) {
  if (!ResizesPositions(model, image)) return;
  throw UsageError("transformers' model has positions for images of " + std::to_string(model.image_size) +
                       " pixels, and these weights are for images of " + std::to_string(config::EvalImageSize(image)),
                   "give --image_size=" + std::to_string(model.image_size) + ", or export with --weights_naming=timm");
}

// Returns the config.json that timm expects beside weights, for example in a model's folder on the Hugging Face hub:
// the architecture, the classes, and size, normalisation and crop of the images in evaluation; for transformers, which
// loads such folders, the kind of the labels.
nlohmann::ordered_json TimmConfig(const models::Model& model, int64_t num_classes, const data::Classes& classes,
                                  data::LabelKind labels, const config::ImageConfig& image) {
  const int64_t side = config::EvalImageSize(image);
  nlohmann::ordered_json trained = {
      {"architecture", model.name},
      {"num_classes", num_classes},
      {"input_size", {3, side, side}},
      {"interpolation", config::EvalInterpolation(image)},
      {"crop_pct", CropPart(side, EvalResize(image))},
      {"crop_mode", "center"},
      {"mean", image.mean},
      {"std", image.std},
  };
  nlohmann::ordered_json config = {
      {"architecture", model.name}, {"num_classes", num_classes}, {"problem_type", ProblemType(labels)}};
  if (!classes.names.empty()) config["label_names"] = trained["label_names"] = classes.names;
  config["pretrained_cfg"] = trained;
  if (ResizesPositions(model, image)) config["model_args"] = {{"dynamic_img_size", true}};
  return config;
}

// Returns the preprocessor_config.json of the images in evaluation: the short side resized, then the centre.
nlohmann::ordered_json ProcessorConfig(const config::ImageConfig& image) {
  const int64_t side = config::EvalImageSize(image);
  constexpr int kBilinear = 2, kBicubic = 3;  // Pillow's
  return {{"image_processor_type", "BitImageProcessor"},
          {"do_convert_rgb", true},
          {"do_resize", true},
          {"size", {{"shortest_edge", EvalResize(image)}}},
          {"resample", config::EvalInterpolation(image) == "bicubic" ? kBicubic : kBilinear},
          {"do_center_crop", true},
          {"crop_size", {{"height", side}, {"width", side}}},
          {"do_rescale", true},
          {"rescale_factor", 1.0 / 255},
          {"do_normalize", true},
          {"image_mean", image.mean},
          {"image_std", image.std}};
}

// Writes the config.json and preprocessor_config.json of a folder for transformers.
void BeginHuggingFaceFolder(const config::Config& config, const models::Model& model, const data::Classes& classes,
                            data::LabelKind labels, int64_t num_classes) {
  const std::filesystem::path folder = config.run.output;
  nlohmann::ordered_json network = weights::HuggingFaceConfig(weights::AsBuilt(model, config.model));
  const auto names = classes.names.empty() ? models::NumberedLabels(num_classes) : classes.names;
  for (size_t label = 0; label < static_cast<size_t>(num_classes); ++label) {
    network["id2label"][std::to_string(label)] = names[label];
    network["label2id"][names[label]] = label;
  }
  network["problem_type"] = ProblemType(labels);
  BeginExportFolder(folder, std::move(network));
  checkpoint::WriteAtomically(folder / "preprocessor_config.json", ProcessorConfig(config.image).dump(2) + "\n");
}

// ---- Text ----

struct ExportedText {
  checkpoint::NamedTensors tensors;  // under the names that they have here
  models::TextOptions options;
  models::TextHead head;
  std::string model;

  bool is_encoder() const { return head.kind == models::HeadKind::kNone; }
  const models::TextFamily& family() const { return models::FamilyOf(model).text; }
  nlohmann::ordered_json ConfigJson() const { return options.ToJson(head); }
};

ExportedText NamedText(const weights::TrainedWeights& weights, const config::Config& config,
                       const models::TextHead& head) {
  const std::string& model = config.model.name;
  return {weights::WithOneHead(weights::WithOwnNames(weights.tensors, config.model, config.run.input), config.model,
                               models::HeadName(model, head.kind), config.run.input),
          weights::TextOptionsOf(config, /*tokens=*/{}, weights::OutlineOf(weights.tensors, weights.model_config)),
          head, model};
}

// Returns the tensors under the names that were asked for.
checkpoint::NamedTensors Renamed(const ExportedText& exported, const std::string& naming) {
  checkpoint::NamedTensors tensors = exported.tensors;
  const std::string backbone = exported.family().backbone + ".";
  for (auto& [name, tensor] : tensors) {
    if (exported.is_encoder() && name.starts_with(backbone)) name.erase(0, backbone.size());
  }
  return naming == "fairseq" ? exported.family().fairseq_names(tensors, exported.options.shape) : tensors;
}

// What fairseq 0.12 reads of a checkpoint beside the weights (checkpoint_utils.py, _upgrade_state_dict): one that
// begins.
nlohmann::ordered_json BesideFairseqs() {
  return {{"args", nullptr},
          {"optimizer_history",
           {{{"criterion_name", ""},
             {"optimizer_name", ""},
             {"lr_scheduler_state", nlohmann::json::object()},
             {"num_updates", 0}}}},
          {"extra_state", {{"train_iterator", {{"epoch", 1}, {"iterations_in_epoch", 0}}}}}};
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
    exported_tokenizer = ExportTokenizer(*tokenizer, exported.options.shape);
    AddUnknownTokens(exported_tokenizer, exported);
    if (exported.head.kind == models::HeadKind::kTokens) PutSpacesBeforeWords(exported_tokenizer);
  } else {
    report::LogWarning("no tokenizer was found with " + config.run.input +
                       ": the folder will have none; name the data that the model was trained on with --data_dir");
  }
  BeginExportFolder(folder, exported.ConfigJson());
  for (const auto& [name, content] : exported_tokenizer.files) checkpoint::WriteAtomically(folder / name, content);
  if (!config::TaskHas(config.run.task, config::kVectors)) return;
  for (const auto& [name, content] : weights::SentenceFolderFiles(config, exported.options.shape)) {
    checkpoint::MakeFolder((folder / name).parent_path());
    checkpoint::WriteAtomically(folder / name, content);
  }
}

}  // namespace

bool HoldsExport(const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / "config.json";
  if (!data::IsFile(file)) return false;
  const auto json = nlohmann::json::parse(checkpoint::ReadTextFile(file, weights::kMostConfigBytes), nullptr,
                                          /*allow_exceptions=*/false);
  return json.is_object() && json.contains(kExportedBy);
}

void ExportImages(weights::TrainedWeights weights, data::LabelKind labels, config::Config config, bool to_file) {
  const std::filesystem::path path = config.run.output;
  const std::string& said = config.model.weights_naming;
  RequireNamingOf(/*is_text=*/false, said);
  const std::string naming = said == "auto" && !to_file ? "timm" : said;
  const models::Model* model = RecogniseAndRename(weights.tensors, naming, config);
  if (model != nullptr) {
    weights::ChangeScale(weights.scale, {}, models::ClassifierName(model->name), weights.tensors);
    weights.scale = {};
  }
  checkpoint::NamedTensors tensors = weights.tensors;
  const auto names_of = model == nullptr ? nullptr : models::FamilyOf(model->name).names_of;
  if (names_of != nullptr) tensors = names_of(tensors, weights::AsBuilt(*model, config.model), naming);
  if (tensors.empty() || (naming == "hf" && names_of == nullptr)) {
    throw UsageError("--weights_naming=" + naming + ": " + naming + " has no model like " +
                         (model == nullptr ? "this one" : model->name) + " whose names are known here",
                     "name another --weights_naming, or leave it out for a FILE.safetensors or FILE.pt with our names");
  }
  if (model != nullptr) CarryEpsilon(*model, naming, to_file, tensors, config);
  const bool is_for_transformers = !to_file && naming == "hf";
  if (!to_file && naming != "timm" && !is_for_transformers) RefuseFolder(path);
  if (is_for_transformers) RequireNativePositions(*model, config.image);
  if (config.run.dry_run) return;
  if (!to_file && config.image.crop != "resized") {
    report::LogWarning("whoever reads " + path.string() + " resizes images first, which --crop=" + config.image.crop +
                       " does not");
  }
  checkpoint::Metadata metadata = {{"format", "pt"}, {kExportedBy, "dtrain"}};
  weights::AddTo(metadata, weights.classes);
  if (weights.scale != weights::NumberScale()) metadata[weights::kNumberScaleKey] = weights::ToText(weights.scale);
  if (model != nullptr && model->name == config.model.name) weights::AddSettings(metadata, config);
  if (to_file && path.extension() != ".safetensors") return checkpoint::WriteTorchFile(path, tensors, kExportedBy);
  if (to_file) return checkpoint::WriteSafetensors(path, tensors, metadata);
  const int64_t num_classes = weights::NumClassesOf(weights.tensors, model->name);
  if (is_for_transformers) {
    BeginHuggingFaceFolder(config, *model, weights.classes, labels, num_classes);
  } else {
    BeginExportFolder(path, TimmConfig(*model, num_classes, weights.classes, labels, config.image));
  }
  checkpoint::WriteSafetensors(path / "model.safetensors", tensors, metadata);
}

void ExportText(weights::TrainedWeights weights, const config::Config& config, bool to_file,
                const models::TextHead& head) {
  std::filesystem::path path = config.run.output;
  const std::string& said = config.model.weights_naming;
  RequireNamingOf(/*is_text=*/true, said);
  const std::string naming = said == "auto" ? "hf" : said;
  ExportedText exported = NamedText(weights, config, head);
  const char* const unlike = models::FactsOf(head.kind).not_in_fairseq;
  if (naming == "fairseq" && (exported.family().fairseq_names == nullptr || unlike != nullptr)) {
    throw UsageError("--weights_naming=fairseq: fairseq has no such model as --model=" + exported.model +
                         (unlike == nullptr ? "" : " " + std::string(unlike)),
                     "use hf");
  }
  if (!to_file && naming != "hf") RefuseFolder(path);
  const auto is_of_head = [word = models::HeadName(exported.model, models::HeadKind::kWords)](const auto& item) {
    return item.first.starts_with(word + ".");
  };
  // What has no head is transformers' …Model; under fairseq's names it is a model whose head is missing.
  const bool is_bare = head.kind == models::HeadKind::kWords && std::ranges::none_of(exported.tensors, is_of_head);
  models::TextHead whole = exported.head;
  if (is_bare) {
    whole.kind = models::HeadKind::kNone;
    exported.tensors = weights::WithOneHead(exported.tensors, config.model, /*head=*/"", config.run.input);
  }
  const auto make = [&] { return exported.options.Make(whole); };
  exported.tensors = weights::WholeWeights(exported.tensors, config.model, make, config.run.input);
  if (naming == "hf") exported.head = whole;
  if (config.run.dry_run) return;
  if (!to_file) {
    WriteTextFolder(exported, config, path);
    path /= "model.safetensors";
  }
  const checkpoint::NamedTensors tensors = Renamed(exported, naming);
  if (path.extension() == ".safetensors") {
    checkpoint::Metadata metadata = {
        {"format", "pt"}, {kExportedBy, "dtrain"}, {weights::kModelConfigKey, exported.ConfigJson().dump()}};
    if (head.kind != models::HeadKind::kWords) weights::AddTo(metadata, weights.classes);
    return checkpoint::WriteSafetensors(path, tensors, metadata);
  }
  if (naming == "fairseq") return checkpoint::WriteTorchFile(path, tensors, kExportedBy, "model", BesideFairseqs());
  const auto& with_tied_decoder = exported.family().with_tied_decoder;
  const auto all = with_tied_decoder == nullptr ? tensors : with_tied_decoder(tensors);
  checkpoint::WriteTorchFile(path, all, kExportedBy, "");
}

}  // namespace dtrain::tasks
