#include "data/folder_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "data/image/codecs.h"
#include "data/joined.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr std::array<std::string_view, 7> kForeign = {
    "__MACOSX", "Thumbs.db", "ehthumbs.db", "desktop.ini", "@eaDir", "$RECYCLE.BIN", "System Volume Information"};
constexpr size_t kMostKinds = 40;
constexpr size_t kLongestExtension = 10;
constexpr char kOthers[] = "other files";

bool IsOfOtherProgram(std::string_view name) {
  return std::find(kForeign.begin(), kForeign.end(), name) != kForeign.end();
}

std::string KindOf(std::string_view name) {
  if (name.starts_with('.')) return "names with a leading dot";
  if (IsOfOtherProgram(name)) return std::string(name);
  const std::string extension = ExtensionOf(name);
  const bool plain = std::all_of(extension.begin() + (extension.empty() ? 0 : 1), extension.end(),
                                 [](unsigned char c) { return std::isalnum(c) != 0; });
  return extension.size() > 1 && extension.size() <= kLongestExtension && plain ? "*" + extension : kOthers;
}

std::string Listed(const IgnoredFiles& files) {
  return Joined(files, ", ", [](const auto& kind) { return std::to_string(kind.second) + " " + kind.first; });
}

}  // namespace

std::string ShortestSplitName(const std::string& split) {
  std::string name = std::filesystem::path(split).lexically_normal().string();
  if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

std::vector<std::string> SplitNames(const std::string& split) {
  const std::string name = ShortestSplitName(split);
  if (name == "val") return {"val", "validation", "valid"};
  return {name};
}

std::vector<std::string> SplitFolders(const std::string& data_dir, const std::vector<std::string>& splits) {
  std::vector<std::string> folders;
  if (data_dir.empty()) return folders;
  for (const std::string& split : splits) {
    for (const std::string& name : SplitNames(split))
      folders.push_back(name == "." ? data_dir : data_dir + "/" + name);  // people know "photos/cat"
  }
  return folders;
}

bool IsValidationName(const std::string& split) {
  return std::ranges::count(SplitNames("val"), ShortestSplitName(split)) != 0;
}

bool IsForeignName(std::string_view name) { return name.starts_with('.') || IsOfOtherProgram(name); }

FolderContent ContentOf(const std::string& folder) {
  FolderContent content;
  try {
    List(folder, [&](const std::string& name, PathKind kind) {
      const bool is_data = !IsForeignName(name);
      auto& names = is_data && kind == PathKind::kFolder ? content.folders
                    : is_data && kind == PathKind::kFile ? content.files
                                                         : content.others;
      names.push_back(name);
      return true;
    });
  } catch (const DataError& error) {
    content.problem = error.what();
  }
  for (auto* names : {&content.folders, &content.files, &content.others}) std::ranges::sort(*names);
  return content;
}

void CountIgnored(std::string_view name, IgnoredFiles& ignored) {
  if (name.ends_with(".imagefolder.index")) return;
  const std::string kind = KindOf(name);
  ++ignored[ignored.contains(kind) || ignored.size() < kMostKinds ? kind : kOthers];
}

std::string ToText(const IgnoredFiles& ignored) {
  IgnoredFiles images, others;
  for (const auto& [kind, count] : ignored) (IsUnreadImage(kind) ? images : others)[kind] = count;
  std::string text = Listed(images);
  if (!text.empty()) {
    text += std::string(" (images of kinds that are not read: convert them, as with ") + kConvertImages + ")";
  }
  if (!others.empty()) text += (text.empty() ? "" : ", ") + Listed(others);
  return text.empty() ? "" : "ignored: " + text;
}

}  // namespace dtrain::data
