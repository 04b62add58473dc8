// Weights by name, where other programs keep what they have fetched. The layouts of the caches are documented:
// huggingface_hub's guide "Understand caching" (models--ORG--NAME with refs/main and snapshots/REVISION), and
// torch.hub.load_state_dict_from_url (checkpoints/FILE).
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/storage.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {
namespace fs = std::filesystem;

constexpr char kTorchvisionUrl[] = "https://download.pytorch.org/models/";

// The files of torchvision's weights (torchvision/models of 0.26).
struct TorchvisionFiles {
  std::string_view model, first, second;  // second: none
};
constexpr std::array<TorchvisionFiles, 24> kTorchvision = {{
    {"resnet18", "resnet18-f37072fd.pth", ""},
    {"resnet34", "resnet34-b627a593.pth", ""},
    {"resnet50", "resnet50-0676ba61.pth", "resnet50-11ad3fa6.pth"},
    {"resnet101", "resnet101-63fe2227.pth", "resnet101-cd907fc2.pth"},
    {"resnet152", "resnet152-394f9c45.pth", "resnet152-f82ba261.pth"},
    {"efficientnet_b0", "efficientnet_b0_rwightman-7f5810bc.pth", ""},
    {"efficientnet_b1", "efficientnet_b1_rwightman-bac287d4.pth", "efficientnet_b1-c27df63c.pth"},
    {"efficientnet_b2", "efficientnet_b2_rwightman-c35c1473.pth", ""},
    {"efficientnet_b3", "efficientnet_b3_rwightman-b3899882.pth", ""},
    {"efficientnet_b4", "efficientnet_b4_rwightman-23ab8bcd.pth", ""},
    {"efficientnet_b5", "efficientnet_b5_lukemelas-1a07897c.pth", ""},
    {"efficientnet_b6", "efficientnet_b6_lukemelas-24a108a5.pth", ""},
    {"efficientnet_b7", "efficientnet_b7_lukemelas-c5b4e57e.pth", ""},
    {"efficientnetv2_s", "efficientnet_v2_s-dd5fe13b.pth", ""},
    {"efficientnetv2_m", "efficientnet_v2_m-dc08266a.pth", ""},
    {"efficientnetv2_l", "efficientnet_v2_l-59c71312.pth", ""},
    {"convnext_tiny", "convnext_tiny-983f1562.pth", ""},
    {"convnext_small", "convnext_small-0c510722.pth", ""},
    {"convnext_base", "convnext_base-6075fbad.pth", ""},
    {"convnext_large", "convnext_large-ea097f82.pth", ""},
    {"vit_base_patch16_224", "vit_b_16-c867db91.pth", ""},
    {"vit_base_patch32_224", "vit_b_32-d86f8d99.pth", ""},
    {"vit_large_patch16_224", "vit_l_16-852ce7e3.pth", ""},
    {"vit_large_patch32_224", "vit_l_32-c7638314.pth", ""},
}};

// Names without an organisation, which the hub redirects.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kShortNames = {{
    {"bert-base-uncased", "google-bert/bert-base-uncased"},
    {"bert-base-cased", "google-bert/bert-base-cased"},
    {"bert-base-multilingual-cased", "google-bert/bert-base-multilingual-cased"},
    {"bert-large-uncased", "google-bert/bert-large-uncased"},
    {"bert-large-cased", "google-bert/bert-large-cased"},
    {"camembert-base", "almanach/camembert-base"},
    {"distilbert-base-uncased", "distilbert/distilbert-base-uncased"},
    {"distilbert-base-multilingual-cased", "distilbert/distilbert-base-multilingual-cased"},
    {"roberta-base", "FacebookAI/roberta-base"},
    {"roberta-large", "FacebookAI/roberta-large"},
    {"distilroberta-base", "distilbert/distilroberta-base"},
    {"xlm-roberta-base", "FacebookAI/xlm-roberta-base"},
    {"xlm-roberta-large", "FacebookAI/xlm-roberta-large"},
}};

// Returns the folder that the first variable which is set names, with what follows it.
fs::path FolderOf(const std::vector<std::pair<const char*, const char*>>& variables) {
  for (const auto& [variable, below] : variables) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != 0) return fs::path(value) / below;
  }
  return {};
}

bool IsPlain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

// Returns "ORG/NAME" if `name` can be one of the hub's; else nothing.
std::string HubName(const std::string& name) {
  constexpr std::array<std::string_view, 4> kFiles = {".pt", ".pth", ".bin", ".safetensors"};
  if (std::ranges::any_of(kFiles, [&name](std::string_view ending) { return name.ends_with(ending); })) return "";
  for (const auto& [known, whole] : kShortNames) {
    if (name == known) return std::string(whole);
  }
  const size_t slash = name.find('/');
  if (slash == std::string::npos) {  // timm's names have a tag: resnet18.a1_in1k
    const size_t dot = name.find('.');
    const bool is_timms = dot != std::string::npos && models::FindModel(name.substr(0, dot)) != nullptr;
    return is_timms ? "timm/" + name : "";
  }
  const std::string org = name.substr(0, slash);
  const bool is_name = IsPlain(org) && org.front() != '.' && IsPlain(name.substr(slash + 1)) && !data::Exists(org);
  return is_name ? name : "";
}

// Returns the snapshot of refs/main, or another one with weights; empty if there is none.
fs::path SnapshotIn(const fs::path& model) {
  constexpr uint64_t kMostBytes = 200;
  std::error_code unreadable;
  const fs::path ref = model / "refs" / "main";
  const std::string main = data::IsFile(ref) ? checkpoint::ReadTextFile(ref, kMostBytes) : "";
  fs::path found;
  fs::directory_iterator entry(model / "snapshots", unreadable);
  for (; !unreadable && entry != fs::directory_iterator(); entry.increment(unreadable)) {
    if (!HoldsWeights(entry->path().string())) continue;
    found = entry->path();
    if (main.starts_with(found.filename().string())) break;  // a line may end behind it
  }
  return found;
}

fs::path InHubCache(const fs::path& cache, std::string name) {
  const size_t slash = name.find('/');
  for (const std::string& one : {name, name.substr(slash + 1)}) {  // programs also keep them under the short name
    std::string folder = "models--" + one;
    if (const size_t at = folder.find('/'); at != std::string::npos) folder.replace(at, 1, "--");
    if (const fs::path found = SnapshotIn(cache / folder); !found.empty()) return found;
  }
  return {};
}

// Returns the file of torchvision's weights `name`, such as ResNet50_Weights.IMAGENET1K_V2; empty for another name.
std::optional<std::string> TorchvisionFile(const std::string& name, const std::string& model) {
  const std::string which = name.substr(name.rfind('.') + 1);
  const bool is_first = which == "IMAGENET1K_V1", must_be_second = which == "IMAGENET1K_V2";
  if (!is_first && !must_be_second && which != "DEFAULT") return std::nullopt;
  const auto* const files = std::ranges::find(kTorchvision, model, &TorchvisionFiles::model);
  const bool is_second = files != kTorchvision.end() && !is_first && !files->second.empty();
  if (files == kTorchvision.end() || (must_be_second && !is_second)) {
    throw UsageError("--init_weights=" + name + ": torchvision has no such weights of --model=" + model,
                     "name the model whose weights they are, or a file");
  }
  return std::string(is_second ? files->second : files->first);
}

std::string Found(config::Config& config, const fs::path& path) {
  return "--init_weights=" + std::exchange(config.model.init_weights, path.string()) + " is " + path.string();
}

[[noreturn]] void Missing(const std::string& name, const fs::path& cache, const std::string& fetch) {
  throw UsageError("--init_weights=" + name + " is neither a file or folder here nor in the cache " + cache.string(),
                   "fetch it once, then the same command finds it: " + fetch);
}

}  // namespace

std::string FindNamedWeights(config::Config& config) {
  const std::string name = config.model.init_weights;
  if (name.empty() || data::Exists(name)) return "";
  if (const auto file = TorchvisionFile(name, config.model.name)) {
    const fs::path cache = FolderOf({{"TORCH_HOME", "hub/checkpoints"},
                                     {"XDG_CACHE_HOME", "torch/hub/checkpoints"},
                                     {"HOME", ".cache/torch/hub/checkpoints"}});
    for (const fs::path& path : {cache / *file, fs::path(*file)}) {
      if (data::Exists(path)) return Found(config, path);
    }
    Missing(name, cache, "curl -fL --create-dirs -o " + (cache / *file).string() + " " + kTorchvisionUrl + *file);
  }
  const std::string hub = HubName(name);
  if (hub.empty()) return "";
  const fs::path cache = FolderOf({{"HF_HUB_CACHE", ""},
                                   {"HF_HOME", "hub"},
                                   {"XDG_CACHE_HOME", "huggingface/hub"},
                                   {"HOME", ".cache/huggingface/hub"}});
  if (const fs::path found = InHubCache(cache, hub); !found.empty()) return Found(config, found);
  Missing(name, cache, "hf download " + hub + " (the program hf comes with pip install huggingface_hub)");
}

}  // namespace dtrain::weights
