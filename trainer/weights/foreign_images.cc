#include "trainer/weights/foreign_images.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "data/joined.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/config_json.h"
#include "trainer/errors.h"

namespace dtrain::weights {
namespace {

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
void AddNormalisation(const nlohmann::json& processor, const config::Config& config, const std::string& file,
                      nlohmann::json& settings) {
  const bool normalises = PartOf(processor, "do_normalize") != false;
  const bool divides_again = IsOf("EfficientNet", processor) && PartOf(processor, "include_top") != false;
  nlohmann::json means = {0, 0, 0};
  if (normalises && !config::WasGiven(config, "mean"))
    means = ColoursIn(processor, "image_mean", std::numeric_limits<double>::lowest(), file);
  nlohmann::json deviations = {1, 1, 1};
  if ((normalises || divides_again) && !config::WasGiven(config, "std")) {
    const nlohmann::json said = ColoursIn(processor, "image_std", 0, file);
    if (normalises) deviations = said;
    if (divides_again && !said.is_null()) {
      for (size_t i = 0; i < said.size(); ++i) deviations[i] = deviations[i].get<double>() * said[i].get<double>();
    }
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
void AddTransformers(const nlohmann::json& processor, const config::Config& config, const std::string& file,
                     nlohmann::json& settings) {
  constexpr int kDefaultCrop = 224, kUncroppedSide = 384;
  constexpr int kBilinear = 2, kBicubic = 3;  // Pillow's
  constexpr double kDefaultPart = 224.0 / 256, kLeastPart = 0.01;
  AddNormalisation(processor, config, file, settings);
  const nlohmann::json side = SideIn(PartOf(processor, "size")), part = PartOf(processor, "crop_pct");
  Add("image_size", side, settings);
  Add("eval_resize", side, settings);
  const nlohmann::json filter = PartOf(processor, "resample");
  if (filter == kBilinear || filter == kBicubic)
    settings["eval_interpolation"] = filter == kBicubic ? "bicubic" : "bilinear";
  if (IsOf("ConvNext", processor) && side.is_number_unsigned() && side < kUncroppedSide) {
    const double share = part.is_number() ? std::max(part.get<double>(), kLeastPart) : kDefaultPart;
    settings["eval_resize"] = static_cast<int64_t>(side.get<double>() / share);
  }
  const nlohmann::json crops = PartOf(processor, "do_center_crop"), crop = SideIn(PartOf(processor, "crop_size"));
  if (crops.is_boolean() ? crops.get<bool>()
                         : IsOf("Bit", processor) || IsOf("CLIP", processor) || IsOf("DeiT", processor))
    settings["image_size"] = crop.is_null() ? nlohmann::json(kDefaultCrop) : crop;
}

}  // namespace

void AddForeignImageSettings(const WeightsPlace& place, const config::Config& config, bool requires_same,
                             nlohmann::json& settings) {
  if (const nlohmann::json described = ParseObject(place.model_config); described.is_object()) {
    const nlohmann::json trained = described.value("pretrained_cfg", described);
    if (requires_same) RequireTimmsImages(trained, place.config_file);
    AddTimms(trained, settings);
  }
  const auto beside = std::filesystem::path(place.file).parent_path() / "preprocessor_config.json";
  if (data::IsFile(beside)) {
    const std::string text = InPlainJson(checkpoint::ReadTextFile(beside, kMostConfigBytes));
    const auto processor = ParseFile<UsageError>(text, beside.string(), "fetch it again, or take it away");
    RequireKnownScale(processor, config, beside.string());
    if (requires_same) RequireTransformersImages(processor, beside.string());
    AddTransformers(processor, config, beside.string(), settings);
  }
  if (config::WasGiven(config, "interpolation")) settings.erase("eval_interpolation");
}

}  // namespace dtrain::weights
