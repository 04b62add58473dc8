#include "trainer/weights/run_settings.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "data/joined.h"
#include "data/outputs.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/store.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/run_directory.h"
#include "trainer/weights/foreign_images.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {
namespace fs = std::filesystem;

nlohmann::json ParseSettings(const std::string& text, const std::string& where) {
  if (nlohmann::json json = ParseObject(text); json.is_object()) return json;
  throw StorageError("the configuration in " + where + " is damaged", "name the file itself with --init_weights");
}

// Without these, the message on the settings that are used would tell of defaults as if the run had chosen them.
void RequireSettingsOfRun(const nlohmann::json& saved, const std::string& where) {
  const std::string model = TextIn(saved, "model");
  const char* size = models::ReadsText(model) ? "tokens_per_sample" : "image_size";
  if (!model.empty() && saved.contains(size)) return;
  throw UsageError(where + " is not the configuration of a run: it has no " + (model.empty() ? "model" : size),
                   "name the weights with --init_weights and their --model, or the run's own folder with --run_dir");
}

// Returns empty if the file is damaged or not a safetensors file, which is reported when its tensors are read.
std::optional<std::string> SettingsIn(const std::string& weights) {
  try {
    const checkpoint::Metadata metadata = ReadWeightsHeader(weights).metadata;
    if (const auto found = metadata.find(kSettings); found != metadata.end()) return found->second;
  } catch (const DataError&) {  // see above
  }
  return std::nullopt;
}

// Whether --data_dir and --labels are those of the run.
bool IsDataOf(const nlohmann::json& saved, const config::Config& config) {
  const auto data = saved.find("data_dir");
  if (data == saved.end() || !data->is_string()) return false;
  std::error_code ignored;
  // Where the run's paths begin; if that is gone, the run was moved with its data, and they begin here.
  fs::path start = TextIn(PartOf(saved, config::kStartKey), "directory");
  if (!fs::is_directory(start, ignored)) start.clear();
  const auto is_same = [&](const std::string& path, const std::string& now) {
    if (path.empty() || now.empty()) return path == now;
    return fs::weakly_canonical(start / path, ignored) == fs::weakly_canonical(now, ignored);
  };
  return is_same(TextIn(saved, "data_dir"), config.data.dir) && is_same(TextIn(saved, "labels"), config.data.labels);
}

// The settings that say which sets the run was validated on, and which part of its data it has held out for that. They
// count for its own data; of other data, --val_split is evaluated, and all of it.
std::vector<std::string> ValidationNames(const nlohmann::json& saved, const config::Config& config) {
  if (!IsDataOf(saved, config)) return {};
  const auto fraction = saved.find("val_fraction");
  if (config::WasGiven(config, "val_split")) return {"data_format"};
  const bool has_fold = saved.contains("val_fold") && saved["val_fold"] != "";
  const bool holds_out = fraction != saved.end() && fraction->is_number() && fraction->get<double>() > 0;
  if (!holds_out && !has_fold) return {"val_split", "data_format"};
  return {"val_split",     "data_format", "val_fraction", "val_fold", "group_column",
          "group_pattern", "train_split", "split_seed",   "seed"};
}

// If another image size is given, it counts in evaluation, too, and what follows from it is derived again.
void ForgetResizeOfAnotherSize(nlohmann::json& settings, const config::Config& config) {
  if (!config::WasGiven(config, "image_size") && !config::WasGiven(config, "eval_image_size")) return;
  for (const char* of_another_size : {"eval_resize", "eval_image_size"}) settings.erase(of_another_size);
}

// Returns the settings that the run which a training goes on with has been started with; null if it begins.
nlohmann::json SettingsOfBegunRun(const config::Config& config) {
  const std::string& resume = config.run.resume;
  if (config.run.mode != "train" || resume == "none") return {};
  const fs::path run = resume == "auto" || resume == "last" ? fs::path(config.run.dir) : RunOf(resume);
  const std::string file = report::RunDirectory(run).config_json.string();
  if (run.empty() || !data::IsFile(file) || checkpoint::Store(run).Steps().empty()) return {};
  return ParseObject(checkpoint::ReadTextFile(file, kMostConfigBytes));
}

// What weights of other programs say.
nlohmann::json SettingsOfOthers(const WeightsPlace& place, const models::WeightShapes& shapes,
                                const config::Config& config, bool of_teacher) {
  const nlohmann::json described = ParseObject(place.model_config);
  const bool is_given = config::WasGiven(config, "model");
  const models::Model* model = ImageModelMeant(shapes, place, config);
  nlohmann::json settings = nlohmann::json::object();
  if (model != nullptr) settings = {{"model", model->name}, {"image_size", model->image_size}};
  if (is_given) model = models::FindModel(config.model.name);
  const auto epsilon = model == nullptr ? std::nullopt : NormEpsilonIn(described, *model);
  if (epsilon) settings["bn_eps"] = *epsilon;
  AddForeignImageSettings(place, config, !is_given && !of_teacher, settings);
  return settings;
}

// What a run that goes on began with, or what --init_weights say.
nlohmann::json SettingsOfInitialWeights(const config::Config& config) {
  const std::string& weights = config.model.init_weights;
  if (const nlohmann::json begun = SettingsOfBegunRun(config); begun.is_object()) return begun;
  if (weights.empty() || !(data::IsFile(weights) || HoldsWeights(weights))) return {};
  return SettingsOfWeights(FindWeights(weights), config);
}

}  // namespace

void AddWhatEarlierVersionsDid(nlohmann::json& settings) {
  if (!settings.contains("split_seed") && settings.contains("seed")) settings["split_seed"] = settings["seed"];
  if (!settings.contains("exif_orientation")) settings["exif_orientation"] = false;
}

fs::path NamedRun(const config::Config& config) {
  if (!config.model.init_weights.empty()) return {};
  const std::string& resume = config.run.resume;
  if (resume != "auto" && resume != "none" && resume != "last") return resume;
  const std::string& input = config.run.input;
  if (config.run.mode == "eval" && !input.empty()) return input;
  if (config.run.mode == "export") return data::IsFolder(input) && GivenWeights(config).empty() ? input : "";
  return config.run.dir;
}

const models::Model* ImageModelMeant(const models::WeightShapes& shapes, const WeightsPlace& place,
                                     const config::Config& config) {
  const std::string said =
      config::WasGiven(config, "model") ? config.model.name : TextIn(ParseObject(place.model_config), "architecture");
  checkpoint::NamedTensors tensors;
  for (const auto& [name, shape] : shapes) tensors.emplace_back(name, at::empty(shape, at::kMeta));
  TakeOffWrappers(tensors);
  const models::Model* found = models::RecognisedImageModel(tensors, said);
  return said.empty() ? AsTrained(found, models::ShapesOf(tensors), place) : found;
}

std::string GivenWeights(const config::Config& config) {
  if (config.run.mode != "export") return config.model.init_weights;
  const std::string& input = config.run.input;
  return !data::IsRun(input) && (data::IsFile(input) || HoldsWeights(input)) ? input : "";
}

fs::path RunOf(const fs::path& run_or_checkpoint) {
  if (run_or_checkpoint.empty() || !data::IsCheckpoint(run_or_checkpoint)) return run_or_checkpoint;
  const fs::path whole = fs::absolute(run_or_checkpoint).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).parent_path().parent_path();
}

void AddSettings(checkpoint::Metadata& metadata, const config::Config& config) {
  const nlohmann::ordered_json all = config::ToJson(config);
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  for (const std::string& name : config::FlagsWith(&config::FlagTraits::kept_with_weights)) settings[name] = all[name];
  metadata[kSettings] = settings.dump();
}

void TakeImageSizeOfModel(config::Config& config) {
  const models::Model* model = models::FindModel(config.model.name);  // null: the checks of the flags refuse it
  if (model != nullptr && !config::WasGiven(config, "image_size")) config.image.size = model->image_size;
}

std::vector<std::string> TakeSettingsOfRun(config::Config& config) {
  const fs::path run = NamedRun(config);
  std::string where;
  nlohmann::json saved;
  if (!run.empty()) {
    where = report::RunDirectory(RunOf(run)).config_json.string();
    if (!data::Exists(where)) {
      if (!data::Exists(run)) return {};  // reported when it is read
      return {"there is no config.json in " + run.string() +
              ": the model and image settings are taken from the command line"};
    }
    saved = ParseSettings(checkpoint::ReadTextFile(where, kMostConfigBytes), where);
  }
  const bool is_export = config.run.mode == "export";
  const bool is_of_run = !run.empty() && !(is_export && !saved.contains("model"));  // else of Hugging Face or timm
  if (is_of_run) {
    RequireSettingsOfRun(saved, where);
  } else {
    where = is_export ? config.run.input : config.model.init_weights;
    if (!where.empty() && HoldsWeights(where)) where = FindWeights(where).file;
    if (!data::IsFile(where)) return {};  // reported when it is read
    const std::optional<std::string> settings = SettingsIn(where);
    if (!settings) return {};
    saved = ParseSettings(*settings, where);
  }
  AddWhatEarlierVersionsDid(saved);
  ForgetResizeOfAnotherSize(saved, config);
  std::vector<std::string> different =
      config::TakeFrom(saved, config::FlagsWith(&config::FlagTraits::kept_with_weights), config);
  RequireSameModel(where, TextIn(saved, "model"), config.model.name);
  if (config.run.mode == "eval") {
    config::TakeFrom(saved, {"max_bad_records"}, config);
    const std::vector<std::string> also = config::TakeFrom(saved, ValidationNames(saved, config), config);
    different.insert(different.end(), also.begin(), also.end());
  }
  const std::string size = models::ReadsText(config.model.name)
                               ? " --tokens_per_sample=" + std::to_string(config.text.tokens_per_sample)
                               : " --image_size=" + std::to_string(config::EvalImageSize(config.image));
  std::vector<std::string> notes = {"from " + where + ": --model=" + config.model.name + size};
  if (!different.empty())
    notes.push_back("these flags differ from the settings that the model was trained with: " + Joined(different));
  return notes;
}

std::string TrainSplitOfRun(const config::Config& config) {
  const fs::path run = NamedRun(config);
  const std::string file = report::RunDirectory(RunOf(run)).config_json.string();
  if (run.empty() || !data::IsFile(file)) return {};
  const nlohmann::json saved = ParseObject(checkpoint::ReadTextFile(file, kMostConfigBytes));
  return IsDataOf(saved, config) ? TextIn(saved, "train_split") : "";
}

nlohmann::json SettingsOfWeights(const WeightsPlace& place, const config::Config& config, bool of_teacher) {
  try {
    const WeightsHeader header = ReadWeightsHeader(place.file);
    const auto kept = header.metadata.find(kSettings);
    nlohmann::json settings = kept == header.metadata.end() ? nlohmann::json() : ParseObject(kept->second);
    const bool are_ours = models::FindModel(TextIn(settings, "model")) != nullptr;
    if (!are_ours) settings = SettingsOfOthers(place, header.shapes, config, of_teacher);
    ForgetResizeOfAnotherSize(settings, config);
    return settings;
  } catch (const DataError&) {
    return {};
  }
}

void TakeImageModelOfWeights(config::Config& config) {
  if (config.model.init_weights.empty() || !config.model.config_file.empty()) return;
  config::TakeFrom(SettingsOfInitialWeights(config), {"model"}, config);
}

std::vector<std::string> ImageSettingNames(const config::Config& config) {
  std::vector<std::string> names = {"bn_eps", "mean", "std"};
  if (!GivenWeights(config).empty() && !config::WasGiven(config, "model"))
    names.insert(names.end(), {"image_size", "eval_resize", "eval_image_size", "eval_interpolation"});
  return names;
}

void TakeImageSettingsOfWeights(config::Config& config) {
  const models::Model* model = models::FindModel(config.model.name);
  if (model == nullptr || models::ReadsText(model->name)) return;
  config::TakeFrom(SettingsOfInitialWeights(config), ImageSettingNames(config), config,
                   "what is kept with --init_weights");
}

}  // namespace dtrain::weights
