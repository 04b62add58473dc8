#include "data/formats/ignored_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "data/joined.h"

namespace dtrain::data {
namespace {

constexpr std::array<std::string_view, 7> kForeign = {
    "__MACOSX", "Thumbs.db", "ehthumbs.db", "desktop.ini", "@eaDir", "$RECYCLE.BIN", "System Volume Information"};
constexpr std::array<std::string_view, 9> kRead = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                   ".pgm", ".tif",  ".tiff", ".webp"};
constexpr std::array<std::string_view, 14> kNotRead = {".gif", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg",
                                                       ".tga", ".psd",  ".ico",  ".raw",  ".dng", ".cr2", ".nef"};
constexpr size_t kMostKinds = 40;
constexpr size_t kLongestExtension = 10;
constexpr char kOthers[] = "other files";

// Returns the extension in lower case with its dot; empty if there is none.
std::string ExtensionOf(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  std::string extension(name.substr(dot));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

template <size_t N>
bool Holds(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string KindOf(std::string_view name) {
  if (name.starts_with('.')) return "names with a leading dot";
  if (Holds(kForeign, name)) return std::string(name);
  const std::string extension = ExtensionOf(name);
  const bool plain = std::all_of(extension.begin() + (extension.empty() ? 0 : 1), extension.end(),
                                 [](unsigned char c) { return std::isalnum(c) != 0; });
  return extension.size() > 1 && extension.size() <= kLongestExtension && plain ? "*" + extension : kOthers;
}

std::string Listed(const IgnoredFiles& files) {
  return Joined(files, ", ", [](const auto& kind) { return std::to_string(kind.second) + " " + kind.first; });
}

}  // namespace

bool IsForeignName(std::string_view name) { return name.starts_with('.') || Holds(kForeign, name); }

FolderContent ContentOf(const std::string& folder) {
  namespace fs = std::filesystem;
  FolderContent content;
  for (fs::directory_iterator entry(folder, content.error); !content.error && entry != fs::directory_iterator();
       entry.increment(content.error)) {
    std::error_code ignored;
    std::string name = entry->path().filename().string();
    if (IsForeignName(name)) {
      content.others.push_back(std::move(name));
    } else if (entry->is_directory(ignored)) {
      content.folders.push_back(std::move(name));
    } else {
      (entry->is_regular_file(ignored) ? content.files : content.others).push_back(std::move(name));
    }
  }
  for (auto* names : {&content.folders, &content.files, &content.others}) std::ranges::sort(*names);
  return content;
}

bool HasImageExtension(std::string_view name) { return Holds(kRead, ExtensionOf(name)); }

bool HasUnreadImageExtension(std::string_view name) { return Holds(kNotRead, ExtensionOf(name)); }

void CountIgnored(std::string_view name, IgnoredFiles& ignored) {
  if (name.ends_with(".imagefolder.index")) return;
  const std::string kind = KindOf(name);
  ++ignored[ignored.contains(kind) || ignored.size() < kMostKinds ? kind : kOthers];
}

std::string ToText(const IgnoredFiles& ignored) {
  IgnoredFiles images, others;
  for (const auto& [kind, count] : ignored) (Holds(kNotRead, kind.substr(1)) ? images : others)[kind] = count;
  std::string text = Listed(images);
  if (!text.empty())
    text += " (images of kinds that are not read: convert them, as with magick mogrify -format jpg FILES)";
  if (!others.empty()) text += (text.empty() ? "" : ", ") + Listed(others);
  return text.empty() ? "" : "ignored: " + text;
}

}  // namespace dtrain::data
