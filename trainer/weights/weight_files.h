// Reads files of weights of any program: safetensors files, and those of torch.save.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/shallow_json.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::weights {

inline constexpr uint64_t kMostConfigBytes = 16 << 20;  // of a config.json, which may name many thousand classes

// A key in the metadata of files that --mode=export has written.
inline constexpr char kExportedBy[] = "exported_by";

// Returns the JSON in the text of a file; throws `Failure` with this advice if it is none.
template <typename Failure>
nlohmann::json ParseFile(const std::string& text, const std::string& file, const std::string& advice) {
  try {
    return ParseShallow(text);
  } catch (const nlohmann::json::exception& error) {
    throw Failure(file + WhyNotJson(error), advice);
  }
}

// The file of weights that a path names, or the index of several, which are read as one.
struct WeightsPlace {
  std::string file;
  std::string config_file = {};   // the config.json beside it, or the file itself where that says it
  std::string model_config = {};  // its content, or what fairseq's arguments say; empty: none of transformers or timm
  std::string trained_as = {};    // the image model that a training program names in it; empty: none is named

  std::string name() const;  // that one, or the file's
};

// Returns a value in a JSON object; null if there is none under that key, or `json` is no object.
nlohmann::json PartOf(const nlohmann::json& json, const char* key);

// Returns a text in a JSON object; empty if there is none under that key, or `json` is no object.
std::string TextIn(const nlohmann::json& json, const char* key);

// Whether save_pretrained has left weights in `folder`, in one file or in several.
bool HoldsWeights(const std::string& folder);

// Finds the weights at `path`: a file, or a folder of Hugging Face's save_pretrained, else throws UsageError, also if
// the config.json beside the weights is damaged.
WeightsPlace FindWeights(const std::string& path);

// Returns what the state of a checkpoint tells of its weights, under the keys that the metadata of a run's other files
// of weights have. Throws StorageError if that is damaged.
checkpoint::Metadata FactsOf(const nlohmann::json& state, const std::string& where);

// Reads a whole file, or all files of an index. The metadata of a file in a checkpoint are also what FactsOf tells. If
// it has several sets of weights, as torch.save writes them during training, `which` == "ema" prefers the averaged one,
// and the log says which was taken. Throws DataError if the file is damaged or calls for more than tensors, UsageError
// if `which` is ema and the format has no averaged set.
checkpoint::SafetensorsContent ReadWeightsFile(const std::string& file, const std::string& which);

// The shapes in a file by name, and its metadata, if any. ReadWeightsHeader reads no tensors.
struct WeightsHeader {
  std::map<std::string, std::vector<int64_t>> shapes;
  checkpoint::Metadata metadata;
};
WeightsHeader ReadWeightsHeader(const std::string& file);

// Removes the prefixes that other programs put before all names ("module.", "_orig_mod.", "model.", "timm_model.", also
// several of them), and the counter that averaging adds. Returns the prefixes.
std::string TakeOffWrappers(checkpoint::NamedTensors& weights);

// If --init_weights is no file or folder but a name that people know weights by (roberta-base, timm/resnet18.a1_in1k,
// IMAGENET1K_V1), sets it to the path in the cache of Hugging Face's or torch's own programs, and returns a sentence
// for people; otherwise returns nothing. Nothing is fetched here (named_weights.cc). Throws UsageError with the one
// line that fetches the weights if no cache has them.
std::string FindNamedWeights(config::Config& config);

}  // namespace dtrain::weights
