// What lies in a folder of images without being data: names with a leading dot, what other programs leave behind, files
// that are no images. It is skipped, and counted, so that nobody misses it in silence.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dtrain::data {

// By what they have in common, for people: "names with a leading dot", "Thumbs.db", "*.txt".
using IgnoredFiles = std::map<std::string, int64_t>;

// Whether a file or folder of this name (without its path) is no data, whatever is in it.
bool IsForeignName(std::string_view name);

// Whether the name ends like an image's that is read (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp, any case).
bool HasImageExtension(std::string_view name);

// Counts a file or folder that is left out.
void CountIgnored(std::string_view name, IgnoredFiles& ignored);

// "ignored: 2 *.gif, 1 *.heic (images of kinds that are not read: convert them to JPEG or PNG), 1 Thumbs.db"; empty for
// none.
std::string ToText(const IgnoredFiles& ignored);

}  // namespace dtrain::data
