// Names in a folder of images that are not data: names with a leading dot, files that other programs leave behind, and
// files that are not images. They are skipped, but counted, so that a skipped file does not go unnoticed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dtrain::data {

// Counts by kind, for messages: "names with a leading dot", "Thumbs.db", "*.txt".
using IgnoredFiles = std::map<std::string, int64_t>;

// Whether a file or folder of this name (without its path) is never data, whatever it holds.
bool IsForeignName(std::string_view name);

// Whether the name has the extension of an image format that is read (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp,
// in any case).
bool HasImageExtension(std::string_view name);

// Whether the name has the extension of an image format that is known but not read (.heic .avif .gif …).
bool HasUnreadImageExtension(std::string_view name);

// Adds a skipped file or folder to the counts.
void CountIgnored(std::string_view name, IgnoredFiles& ignored);

// Returns "ignored: 2 *.gif, 1 *.heic (images of kinds that are not read: convert them, as with magick mogrify
// -format jpg FILES), 1 Thumbs.db";// an empty string if nothing was ignored.
std::string ToText(const IgnoredFiles& ignored);

}  // namespace dtrain::data
