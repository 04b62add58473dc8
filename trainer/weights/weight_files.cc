#include "trainer/weights/weight_files.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "data/formats/safetensors_file.h"
#include "data/formats/torch_file.h"
#include "data/joined.h"
#include "data/outputs.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/torch_file.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/text_model.h"

namespace dtrain::weights {
namespace {
namespace fs = std::filesystem;

// The prefixes that DataParallel, torch.compile, Lightning and transformers' models of timm add to every name.
constexpr std::array<std::string_view, 4> kWrappers = {"module.", "_orig_mod.", "model.", "timm_model."};
// What save_pretrained calls the file of weights, or the index of several, the newer names first: it leaves files of
// the older ones where they are. The first that is there counts, as in transformers.
constexpr const char* kNamesInFolders[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                           "pytorch_model.bin.index.json"};
// The counter that torch.optim.swa_utils.AveragedModel adds.
constexpr std::string_view kAverageCounter = "n_averaged";
constexpr std::string_view kAveraged = "ema";  // of --weights

bool AllBeginWith(std::string_view wrapper, const checkpoint::NamedTensors& weights) {
  bool any = false;
  for (const auto& [name, tensor] : weights) {
    if (name == kAverageCounter) continue;
    if (!name.starts_with(wrapper)) return false;
    any = true;
  }
  return any;
}

void LogTakenSet(const std::string& file, const checkpoint::TorchFileContent& content, const std::string& which) {
  if (content.taken.empty()) return;
  const std::string others = Joined(content.not_taken, ", ", [](const auto& name) { return Shown(name, 80); });
  const std::string choice = which == kAveraged ? "" : "; --weights=ema takes the averaged weights, if there are any";
  report::LogInfo("taking the weights under " + Shown(content.taken, 80) + " of " + file +
                  (others.empty() ? "" : ", not those under " + others + choice));
}

// Reads what a training program's checkpoint says of its network: fairseq's arguments, or the name of an image model.
void TakeDescription(const data::TorchFile& content, WeightsPlace& place) {
  const nlohmann::json arguments = ParseObject(content.arguments());
  models::WeightShapes shapes;
  for (const data::TorchTensor& tensor : content.tensors()) shapes[tensor.name] = tensor.view.shape;
  for (const models::Family& family : models::Families()) {
    if (!arguments.is_object() || family.text.fairseq_config == nullptr) continue;
    const nlohmann::json config = family.text.fairseq_config(arguments, shapes);
    if (!config.is_object()) continue;
    place.config_file = place.file;
    place.model_config = config.dump();
    return;
  }
  for (const char* key : {"model", "arch"}) {  // also hf-hub:timm/resnet18.a1_in1k
    const std::string said = TextIn(arguments, key), name = said.substr(said.rfind('/') + 1);
    if (!name.empty()) place.trained_as = name.substr(0, name.find('.'));
  }
}

// A run directory's config.json has none of the fields by which those of transformers (of old BERTs by their sizes) and
// timm are known; it holds flags.
WeightsPlace WithConfig(const fs::path& file) {
  const fs::path config = file.parent_path() / "config.json";
  WeightsPlace place{.file = file.string(), .config_file = config.string()};
  if (!data::IsFile(config)) {
    try {
      if (data::TorchFile::Recognises(place.file)) TakeDescription({place.file, data::WeightSet::kRaw}, place);
    } catch (const DataError&) {  // reported when its tensors are read
    }
    return place;
  }
  std::string text = InPlainJson(checkpoint::ReadTextFile(config, kMostConfigBytes));
  const auto json = ParseFile<UsageError>(text, config.string(), "fetch it again, or take it away");
  const bool is_old_bert =
      json.contains("hidden_size") && json.contains("num_hidden_layers") && json.contains("num_attention_heads");
  const bool is_theirs = json.contains("model_type") || is_old_bert || json.contains("architecture");
  if (is_theirs) place.model_config = std::move(text);
  return place;
}

// Returns the files that an index of save_pretrained names, which lie beside it.
std::vector<std::string> PartsIn(const std::string& index) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  const std::string advice = "fetch the whole folder again";
  std::set<std::string> names;
  try {
    const nlohmann::json json = ParseShallow(checkpoint::ReadTextFile(index, kMostBytes));
    for (const auto& [name, part] : json.at("weight_map").items()) names.insert(part.get<std::string>());
  } catch (const nlohmann::json::exception&) {
    throw DataError(index + " is not an index of weights: it has no weight_map with the name of a file for each tensor",
                    advice);
  }
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const fs::path part = fs::path(index).parent_path() / name;
    if (fs::path(name).filename() != name || !data::IsFile(part)) {
      throw DataError(index + " names " + Shown(name, 80) + ", which is no file beside it", advice);
    }
    parts.push_back(part.string());
  }
  return parts;
}

// Returns the facts of the checkpoint that holds a file; nothing if none does.
checkpoint::Metadata FactsBeside(const fs::path& file) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const fs::path folder = file.parent_path(), state = folder / "state.json";
  if (!data::IsCheckpoint(folder.string())) return {};
  const auto json = ParseFile<StorageError>(checkpoint::ReadTextFile(state, kMostBytes), state.string(),
                                            "take another checkpoint or file of weights");
  return FactsOf(json, state.string());
}

checkpoint::SafetensorsContent ReadAllParts(const std::string& index, const std::string& which) {
  checkpoint::SafetensorsContent all;
  for (const std::string& part : PartsIn(index)) {
    checkpoint::SafetensorsContent content = ReadWeightsFile(part, which);
    std::ranges::move(content.tensors, std::back_inserter(all.tensors));
    all.metadata.merge(content.metadata);
  }
  return all;
}

WeightsHeader ReadHeadersOfParts(const std::string& index) {
  WeightsHeader all;
  for (const std::string& part : PartsIn(index)) {
    WeightsHeader of_part = ReadWeightsHeader(part);
    all.shapes.merge(of_part.shapes);
    all.metadata.merge(of_part.metadata);
  }
  return all;
}

UsageError NoAverageIn(const std::string& file) {
  return UsageError("--weights=ema: " + file + " has one set of weights",
                    "leave it out, or name a file that holds the averaged weights");
}

checkpoint::SafetensorsContent ReadTorchWeights(const std::string& file, const std::string& which) {
  const auto preferred = which == kAveraged ? data::WeightSet::kAverage : data::WeightSet::kRaw;
  checkpoint::TorchFileContent content = checkpoint::ReadTorchFile(file, preferred);
  const auto counts = [](const auto& tensor) { return tensor.first == kAverageCounter; };
  if (which == kAveraged && !content.is_average && std::ranges::none_of(content.tensors, counts))
    throw NoAverageIn(file);
  LogTakenSet(file, content, which);
  return {std::move(content.tensors), {}};
}

WeightsHeader ReadTorchHeader(const std::string& file) {
  WeightsHeader header;
  const data::TorchFile content(file, data::WeightSet::kRaw);
  for (const data::TorchTensor& tensor : content.tensors()) header.shapes[tensor.name] = tensor.view.shape;
  return header;
}

// Names of metadata are free, and other programs may mean something else by those of the facts here.
checkpoint::Metadata OwnFacts(checkpoint::Metadata metadata) {
  const bool are_ours = metadata.contains(kExportedBy) || metadata.contains("step");
  return are_ours ? std::move(metadata) : checkpoint::Metadata();
}

checkpoint::SafetensorsContent ReadOneSet(const std::string& file, const std::string& which) {
  if (which == kAveraged) throw NoAverageIn(file);
  checkpoint::SafetensorsContent content = checkpoint::ReadWeights(file);
  content.metadata = OwnFacts(std::move(content.metadata));
  content.metadata.merge(FactsBeside(file));
  return content;
}

WeightsHeader ReadSafetensorsHeader(const std::string& file) {
  const data::SafetensorsFile safetensors(file);
  WeightsHeader header{.shapes = {}, .metadata = OwnFacts(safetensors.metadata())};
  for (const auto& [name, entry] : safetensors.tensors()) header.shapes[name] = entry.shape;
  header.metadata.merge(FactsBeside(file));
  return header;
}

// What a file of weights can be; the first that recognises it reads it.
struct Format {
  bool (*recognises)(const std::string& file);
  checkpoint::SafetensorsContent (*read)(const std::string& file, const std::string& which);  // as ReadWeightsFile
  WeightsHeader (*read_header)(const std::string& file);
};
constexpr Format kFormats[] = {
    {[](const std::string& file) { return file.ends_with(".index.json"); }, ReadAllParts, ReadHeadersOfParts},
    {data::TorchFile::Recognises, ReadTorchWeights, ReadTorchHeader},
    {[](const std::string&) { return true; }, ReadOneSet, ReadSafetensorsHeader},
};

std::optional<fs::path> FileIn(const fs::path& folder) {
  for (const char* name : kNamesInFolders) {
    if (data::IsFile(folder / name)) return folder / name;
  }
  return std::nullopt;
}

const Format& FormatOf(const std::string& file) {
  return *std::ranges::find_if(kFormats, [&file](const Format& format) { return format.recognises(file); });
}

}  // namespace

nlohmann::json PartOf(const nlohmann::json& json, const char* key) {
  return json.is_object() ? json.value(key, nlohmann::json()) : nlohmann::json();
}

std::string TextIn(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

checkpoint::Metadata FactsOf(const nlohmann::json& state, const std::string& where) {
  checkpoint::Metadata facts;
  AddTo(facts, ClassesFromJson(PartOf(state, "classes"), where));
  if (const nlohmann::json config = PartOf(state, "config"); config.is_object()) facts[kSettings] = config.dump();
  if (const nlohmann::json shape = PartOf(PartOf(state, "run"), kModelShapeKey); !shape.is_null())
    facts[kModelConfigKey] = shape.dump();
  for (const char* key :
       {kModelConfigKey, kHeldOutKey, kTrainedOnKey, kNumberScaleKey}) {  // versions before have no model_config
    if (std::string value = TextIn(state, key); !value.empty()) facts[key] = std::move(value);
  }
  return facts;
}

std::string WeightsPlace::name() const { return trained_as.empty() ? fs::path(file).filename().string() : trained_as; }

bool HoldsWeights(const std::string& folder) { return FileIn(folder).has_value(); }

WeightsPlace FindWeights(const std::string& path) {
  if (data::IsFile(path)) return WithConfig(path);
  if (const auto file = FileIn(path)) return WithConfig(*file);
  throw UsageError(path + " is neither a file of weights nor a folder with model.safetensors or pytorch_model.bin",
                   "name a safetensors file, a file of torch.save, or a folder written by save_pretrained, with "
                   "--init_weights or --input");
}

checkpoint::SafetensorsContent ReadWeightsFile(const std::string& file, const std::string& which) {
  return FormatOf(file).read(file, which);
}

WeightsHeader ReadWeightsHeader(const std::string& file) { return FormatOf(file).read_header(file); }

std::string TakeOffWrappers(checkpoint::NamedTensors& weights) {
  std::string taken;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!AllBeginWith(wrapper, weights)) continue;
      std::erase_if(weights, [](const auto& item) { return item.first == kAverageCounter; });
      for (auto& [name, tensor] : weights) name.erase(0, wrapper.size());
      taken += wrapper;
      found = true;
    }
  }
  return taken;
}

}  // namespace dtrain::weights
