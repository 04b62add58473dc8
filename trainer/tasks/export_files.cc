#include "trainer/tasks/export_files.h"

#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::tasks {

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
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable)) return false;
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

}  // namespace dtrain::tasks
