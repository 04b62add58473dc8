#include "trainer/weights/run_settings.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

// The settings that say which sets the run was validated on, and which part of its data it has held out for that. They
// count for its own data; of other data, --val_split is evaluated, and all of it.
std::vector<std::string> ValidationNames(const nlohmann::json& saved, const config::Config& config) {
  const auto fraction = saved.find("val_fraction"), data = saved.find("data_dir");
  if (data == saved.end() || !data->is_string() || config::WasGiven(config, "val_split")) return {};
  std::error_code ignored;
  // Where the run's paths begin; if that is gone, the run was moved with its data, and they begin here.
  fs::path start = TextIn(PartOf(saved, config::kStartKey), "directory");
  if (!fs::is_directory(start, ignored)) start.clear();
  const auto is_same = [&](const std::string& path, const std::string& now) {
    if (path.empty() || now.empty()) return path == now;
    return fs::weakly_canonical(start / path, ignored) == fs::weakly_canonical(now, ignored);
  };
  if (!is_same(TextIn(saved, "data_dir"), config.data.dir) || !is_same(TextIn(saved, "labels"), config.data.labels))
    return {};
  const bool has_fold = saved.contains("val_fold") && saved["val_fold"] != "";
  const bool holds_out = fraction != saved.end() && fraction->is_number() && fraction->get<double>() > 0;
  if (!holds_out && !has_fold) return {"val_split"};
  return {"val_split",     "val_fraction", "val_fold",   "group_column",
          "group_pattern", "train_split",  "split_seed", "seed"};
}

// If another image size is given, it counts in evaluation, too, and an eval_resize that was derived from the run's is
// derived again.
void ForgetDerivedResize(nlohmann::json& saved, const config::Config& config) {
  const bool is_given = config::WasGiven(config, "image_size") || config::WasGiven(config, "eval_image_size");
  const auto size = saved.find("image_size"), resize = saved.find("eval_resize");
  if (!is_given || size == saved.end() || !size->is_number_integer()) return;
  const auto own = saved.find("eval_image_size");
  const bool has_own = own != saved.end() && own->is_number_integer() && own->get<int64_t>() > 0;
  const int64_t side = (has_own ? *own : *size).get<int64_t>();
  if (resize != saved.end() && *resize == config::DefaultEvalResize(side)) saved.erase(resize);
  saved.erase("eval_image_size");
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

// Takes the sizes in evaluation out of settings if another image size was given.
void ForgetResizeOfAnotherSize(nlohmann::json& settings, const config::Config& config) {
  if (!config::WasGiven(config, "image_size") && !config::WasGiven(config, "eval_image_size")) return;
  for (const char* of_another_size : {"eval_resize", "eval_image_size"}) settings.erase(of_another_size);
}

void Add(const char* name, const nlohmann::json& value, nlohmann::json& settings) {
  if (!value.is_null()) settings[name] = value;
}

constexpr char kOtherImages[] =
    "to see images as --image_size, --eval_resize and --eval_interpolation say, name the --model";

// Throws UsageError for images that timm makes in another way than here, where the centre of what is resized is taken.
void RequireTimmsImages(const nlohmann::json& config, const std::string& file) {
  const std::string crop = TextIn(config, "crop_mode"), filter = TextIn(config, "interpolation");
  const nlohmann::json size = PartOf(config, "input_size");
  std::string other;
  if (!crop.empty() && crop != "center") other = "crop_mode is " + crop + ", expected center";
  if (!filter.empty() && filter != "bilinear" && filter != "bicubic")
    other = "interpolation is " + filter + ", expected bilinear or bicubic";
  if (size.is_array() && size.size() == 3 && size[1] != size[2])
    other = "input_size is " + size.dump() + ", expected a square";
  if (other.empty()) return;
  throw UsageError(file + ": " + Shown(other, 200), kOtherImages);
}

void AddTimms(const nlohmann::json& config, nlohmann::json& settings) {
  Add("mean", PartOf(config, "mean"), settings);
  Add("std", PartOf(config, "std"), settings);
  if (const auto size = PartOf(config, "input_size"); size.is_array() && size.size() == 3)
    settings["image_size"] = size[1];
  const nlohmann::json part = PartOf(config, "crop_pct"), filter = PartOf(config, "interpolation");
  const nlohmann::json side = settings.value("image_size", nlohmann::json());
  if (part.is_number() && part > 0 && side.is_number()) {
    settings["eval_resize"] = static_cast<int64_t>(side.get<double>() / part.get<double>());
  }
  if (filter == "bilinear" || filter == "bicubic") settings["eval_interpolation"] = filter;
}

// Refuses what a processor of transformers makes of images in another way than here. `known` has values of fields that
// it may have.
void RequireKnownImages(const nlohmann::json& processor, const nlohmann::json& known, const std::string& file,
                        const std::string& advice) {
  for (const auto& [field, values] : known.items()) {
    const nlohmann::json said = PartOf(processor, field.c_str());
    if (said.is_null() || std::ranges::count(values, said) > 0) continue;
    throw UsageError(file + ": " + field + " is " + Shown(said.dump(), 200) + ", expected " +
                         Joined(values, " or ", [](const nlohmann::json& value) { return value.dump(); }),
                     advice);
  }
}

void RequireKnownScale(nlohmann::json processor, const config::Config& config, const std::string& file) {
  if (config::WasGiven(config, "mean") && config::WasGiven(config, "std")) return;
  const nlohmann::json factor = PartOf(processor, "rescale_factor");
  if (factor.is_number() && std::abs(255 * factor.get<double>() - 1) < 1e-6) processor["rescale_factor"] = 1.0 / 255;
  RequireKnownImages(processor, {{"do_rescale", {true}}, {"rescale_factor", {1.0 / 255}}, {"rescale_offset", {false}}},
                     file, "give --mean and --std, which are of pixels from 0 to 1");
}

bool IsOf(const char* kind, const nlohmann::json& processor) {
  return TextIn(processor, "image_processor_type").starts_with(kind) ||
         TextIn(processor, "feature_extractor_type").starts_with(kind);
}

// EfficientNet's published files all say the nearest pixels (0), with which nobody trained them.
void RequireTransformersImages(nlohmann::json processor, const std::string& file) {
  if (IsOf("EfficientNet", processor) && PartOf(processor, "resample") == 0) processor.erase("resample");
  nlohmann::json known = {{"do_resize", {true}}, {"resample", {2, 3}}};
  for (const char* field : {"size", "crop_size"}) {
    nlohmann::json square = PartOf(processor, field);
    if (!PartOf(square, "height").is_null()) square["width"] = PartOf(square, "height");
    known[field] = nlohmann::json::array({square});
  }
  RequireKnownImages(processor, known, file, kOtherImages);
}

// Returns a number for each colour, of which a processor may say one for all; null if it says none.
nlohmann::json ColoursIn(const nlohmann::json& processor, const char* field, double above, const std::string& file) {
  nlohmann::json said = PartOf(processor, field);
  if (said.is_number()) said = nlohmann::json::array({said, said, said});
  const auto is_valid = [above](const nlohmann::json& one) { return one.is_number() && one > above; };
  if (said.is_null() || (said.is_array() && said.size() == 3 && std::ranges::all_of(said, is_valid))) return said;
  throw UsageError(file + ": " + field + " is " + Shown(said.dump(), 200) + ", expected three numbers" +
                       (above == 0 ? " above 0" : ""),
                   "correct it, or take the file away and give --mean and --std");
}

// EfficientNet's processor divides by the deviations once more.
void AddNormalisation(const nlohmann::json& processor, bool is_efficientnet, const std::string& file,
                      nlohmann::json& settings) {
  nlohmann::json means = ColoursIn(processor, "image_mean", std::numeric_limits<double>::lowest(), file);
  const nlohmann::json said = ColoursIn(processor, "image_std", 0, file);
  nlohmann::json deviations = said;
  if (PartOf(processor, "do_normalize") == false) {
    means = {0, 0, 0};
    deviations = {1, 1, 1};
  }
  if (is_efficientnet && !said.is_null() && PartOf(processor, "include_top") != false) {
    for (size_t i = 0; i < said.size(); ++i) deviations[i] = deviations[i].get<double>() * said[i].get<double>();
  }
  Add("mean", means, settings);
  Add("std", deviations, settings);
}

// The side of the squares that a file of transformers describes in one of its ways; null if it says none.
nlohmann::json SideIn(const nlohmann::json& size) {
  for (const nlohmann::json& side : {size, PartOf(size, "height"), PartOf(size, "shortest_edge")}) {
    if (side.is_number_unsigned()) return side;
  }
  return {};
}

// Of BiT, DINOv2, CLIP and DeiT, the processor crops the centre of what it has resized. ConvNeXt's, which ResNets have,
// too, makes images of less than 384 pixels from larger ones.
void AddTransformers(const nlohmann::json& processor, const std::string& file, nlohmann::json& settings) {
  constexpr int kDefaultCrop = 224, kUncroppedSide = 384;
  constexpr int kBilinear = 2, kBicubic = 3;  // Pillow's
  constexpr double kDefaultPart = 224.0 / 256, kLeastPart = 0.01;
  const auto is_of = [&](const char* kind) { return IsOf(kind, processor); };
  AddNormalisation(processor, is_of("EfficientNet"), file, settings);
  const nlohmann::json side = SideIn(PartOf(processor, "size")), part = PartOf(processor, "crop_pct");
  Add("image_size", side, settings);
  Add("eval_resize", side, settings);
  const nlohmann::json filter = PartOf(processor, "resample");
  if (filter == kBilinear || filter == kBicubic)
    settings["eval_interpolation"] = filter == kBicubic ? "bicubic" : "bilinear";
  if (is_of("ConvNext") && side.is_number_unsigned() && side < kUncroppedSide) {
    const double share = part.is_number() ? std::max(part.get<double>(), kLeastPart) : kDefaultPart;
    settings["eval_resize"] = static_cast<int64_t>(side.get<double>() / share);
  }
  const nlohmann::json crops = PartOf(processor, "do_center_crop"), crop = SideIn(PartOf(processor, "crop_size"));
  if (crops.is_boolean() ? crops.get<bool>() : is_of("Bit") || is_of("CLIP") || is_of("DeiT"))
    settings["image_size"] = crop.is_null() ? nlohmann::json(kDefaultCrop) : crop;
}

// Of shapes alone: to compute would start OpenMP's threads, which ranks that are forked from this process lack.
const models::Model* RecogniseImageModel(const models::WeightShapes& shapes, const std::string& said) {
  checkpoint::NamedTensors tensors;
  for (const auto& [name, shape] : shapes) tensors.emplace_back(name, at::empty(shape, at::kMeta));
  TakeOffWrappers(tensors);
  return models::RecognisedImageModel(tensors, said);
}

// What weights of other programs say.
nlohmann::json SettingsOfOthers(const WeightsPlace& place, const models::WeightShapes& shapes,
                                const config::Config& config, bool of_teacher) {
  const nlohmann::json described = ParseObject(place.model_config);
  const bool is_given = config::WasGiven(config, "model");
  const models::Model* model =
      RecogniseImageModel(shapes, is_given ? config.model.name : TextIn(described, "architecture"));
  nlohmann::json settings = nlohmann::json::object();
  if (model != nullptr) settings = {{"model", model->name}, {"image_size", model->image_size}};
  if (is_given) model = models::FindModel(config.model.name);
  const auto epsilon = model == nullptr ? std::nullopt : NormEpsilonIn(described, *model);
  if (epsilon) settings["bn_eps"] = *epsilon;
  if (described.is_object()) {
    const nlohmann::json trained = described.value("pretrained_cfg", described);
    if (!is_given && !of_teacher) RequireTimmsImages(trained, place.config_file);
    AddTimms(trained, settings);
  }
  const auto beside = fs::path(place.file).parent_path() / "preprocessor_config.json";
  if (data::IsFile(beside)) {
    const std::string text = InPlainJson(checkpoint::ReadTextFile(beside, kMostConfigBytes));
    const auto processor = ParseFile<UsageError>(text, beside.string(), "fetch it again, or take it away");
    RequireKnownScale(processor, config, beside.string());
    if (!is_given && !of_teacher) RequireTransformersImages(processor, beside.string());
    AddTransformers(processor, beside.string(), settings);
  }
  if (config::WasGiven(config, "interpolation")) settings.erase("eval_interpolation");
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

void FindLastRun(config::Config& config, int rank) {
  if (config.run.resume != "last" || !config.run.dir.empty()) return;
  const std::optional<fs::path> newest = report::NewestRun(config::kRuns);
  if (!newest && rank == 0) {
    throw UsageError("--resume=last: there is no run in " + fs::absolute(config::kRuns).string(),
                     "name it with --run_dir, or start dtrain_main in the folder that contains runs/");
  }
  config.run.resume = "auto";
  if (newest) config.run.dir = newest->string();
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

std::string GivenWeights(const config::Config& config) {
  if (config.run.mode != "export") return config.model.init_weights;
  const std::string& input = config.run.input;
  return !data::IsRun(input) && (data::IsFile(input) || HoldsWeights(input)) ? input : "";
}

fs::path RunOf(const fs::path& run_or_checkpoint) {
  if (!data::IsCheckpoint(run_or_checkpoint)) return run_or_checkpoint;
  const fs::path folder = run_or_checkpoint.has_filename() ? run_or_checkpoint : run_or_checkpoint.parent_path();
  return folder.parent_path().parent_path();
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
  ForgetDerivedResize(saved, config);
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

void TakeImageSettingsOfWeights(config::Config& config) {
  const models::Model* model = models::FindModel(config.model.name);
  if (model == nullptr || models::ReadsText(model->name)) return;
  std::vector<std::string> names = {"bn_eps", "mean", "std"};
  const bool are_sizes_theirs = !config.model.init_weights.empty() && !config::WasGiven(config, "model");
  if (are_sizes_theirs)
    names.insert(names.end(), {"image_size", "eval_resize", "eval_image_size", "eval_interpolation"});
  config::TakeFrom(SettingsOfInitialWeights(config), names, config, "what is kept with --init_weights");
}

}  // namespace dtrain::weights
