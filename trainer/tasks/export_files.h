// What the exports of images and of text have in common: the file or folder that they write.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"

namespace dtrain::tasks {

// Exported files have this key in their metadata or as a record, an exported config.json among its keys. Other programs
// skip it, and a later export may replace what has it.
inline constexpr char kExportedBy[] = "exported_by";

// Makes the folder, and those that it is in. Throws StorageError.
void MakeFolder(const std::filesystem::path& folder);

// Makes the folder and writes its config.json, before anything else is written into it: the file says that the folder
// is an export, which a later one may replace. Throws StorageError.
void BeginExportFolder(const std::filesystem::path& folder, nlohmann::ordered_json config_json);

// Whether BeginExportFolder was called for this folder.
bool HoldsExport(const std::string& folder);

// Throws UsageError for a naming that only single files have.
[[noreturn]] void RefuseFolder(const std::filesystem::path& folder);

// Throws UsageError for a naming of the other kind of models.
[[noreturn]] void RefuseNaming(const std::string& naming, bool is_text);

}  // namespace dtrain::tasks
