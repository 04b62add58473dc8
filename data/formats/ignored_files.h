// Which names in a folder are data, and which are not: names with a leading dot, files that other programs leave
// behind, and files of other kinds. They are skipped, but counted, so that a skipped file does not go unnoticed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dtrain::data {

// Counts by kind, for messages: "names with a leading dot", "Thumbs.db", "*.txt".
using IgnoredFiles = std::map<std::string, int64_t>;

// Whether a file or folder of this name (without its path) is never data, whatever it holds.
bool IsForeignName(std::string_view name);

// The names in a folder, sorted. Links count as what they lead to.
struct FolderContent {
  std::vector<std::string> folders = {};
  std::vector<std::string> files = {};
  std::vector<std::string> others = {};  // foreign names, and what is neither a folder nor a regular file
  std::error_code error = {};            // why the rest is missing, if the folder could not be read
};
FolderContent ContentOf(const std::string& folder);

// Whether the name has the extension of an image format that is read (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp,
// in any case).
bool HasImageExtension(std::string_view name);

// Whether the name has the extension of an image format that is known but not read (.heic .avif .gif …).
bool HasUnreadImageExtension(std::string_view name);

// Adds a skipped file or folder to the counts, unless it is our own index, which lies among the classes of a split ".".
void CountIgnored(std::string_view name, IgnoredFiles& ignored);

// Returns "ignored: 2 *.gif, 1 *.heic (images of kinds that are not read: convert them, as with magick mogrify
// -format jpg FILES), 1 Thumbs.db";// an empty string if nothing was ignored.
std::string ToText(const IgnoredFiles& ignored);

}  // namespace dtrain::data
