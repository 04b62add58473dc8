#include "trainer/tasks/export_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "data/storage.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {
namespace {

// The names alone tell the order, part by part, so that no model must be made for it. Every module lists its own
// tensors, then those of its parts.
constexpr auto kOwn =
    std::to_array<std::string_view>({"weight", "bias", "running_mean", "running_var", "num_batches_tracked"});

using Parts = std::vector<std::string_view>;  // of names, in the order of a state_dict

// Returns those of the family of `model`, or of all.
Parts PartsFor(const std::string& model) {
  Parts parts(kOwn.begin(), kOwn.end());
  for (const models::Family& family : models::Families()) {
    if (!model.empty() && &family != models::FindFamily(model)) continue;
    parts.insert(parts.end(), family.name_order.begin(), family.name_order.end());
  }
  return parts;
}

// What two parts are compared by: numbers by their value, known parts by their place above, others by their letters.
std::pair<int64_t, std::string_view> KeyOf(std::string_view part, const Parts& parts) {
  int64_t number = 0;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == part.data() + part.size()) return {number, ""};
  const auto known = std::find(parts.begin(), parts.end(), part);
  return {known - parts.begin(), known == parts.end() ? part : ""};
}

bool ComesFirst(std::string_view a, std::string_view b, const Parts& parts) {
  while (!a.empty() && !b.empty()) {
    const std::string_view part_of_a = a.substr(0, a.find('.')), part_of_b = b.substr(0, b.find('.'));
    if (part_of_a != part_of_b) return KeyOf(part_of_a, parts) < KeyOf(part_of_b, parts);
    a.remove_prefix(std::min(a.size(), part_of_a.size() + 1));
    b.remove_prefix(std::min(b.size(), part_of_b.size() + 1));
  }
  return a.empty() && !b.empty();
}

}  // namespace

void MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw StorageError("cannot make the folder " + folder.string() + ": " + error.message());
}

void BeginExportFolder(const std::filesystem::path& folder, nlohmann::ordered_json config_json) {
  MakeFolder(folder);
  config_json[kExportedBy] = "dtrain";
  checkpoint::WriteAtomically(folder / "config.json", config_json.dump(2) + "\n");
}

bool HoldsExport(const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / "config.json";
  if (!data::IsFile(file)) return false;
  const auto json = nlohmann::json::parse(checkpoint::ReadTextFile(file, weights::kMostConfigBytes), nullptr,
                                          /*allow_exceptions=*/false);
  return json.is_object() && json.contains(kExportedBy);
}

void RefuseFolder(const std::filesystem::path& folder) {
  throw UsageError(
      "--output=" + folder.string() + " names a folder, which can only have the names of Hugging Face or timm",
      "for a single file, end its name in .safetensors or .pt");
}

void RefuseNaming(const std::string& naming, bool is_text) {
  throw UsageError("--weights_naming=" + naming + " is for " +
                       (is_text ? "images, but these are weights of text" : "text, but these are not"),
                   is_text ? "use hf or fairseq" : "use torchvision or timm");
}

checkpoint::NamedTensors InStateDictOrder(checkpoint::NamedTensors tensors, const std::string& model) {
  const Parts parts = PartsFor(model);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&parts](const auto& a, const auto& b) { return ComesFirst(a.first, b.first, parts); });
  return tensors;
}

}  // namespace dtrain::tasks
