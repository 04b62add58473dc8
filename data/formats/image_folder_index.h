// ImageFolder's index: the list of all files, in torchvision's order. Listing millions of files on a network file
// system takes minutes, so the result is cached (record_index.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/formats/ignored_files.h"
#include "data/formats/record_index.h"

namespace dtrain::data {

bool IsFolder(const std::string& path);

// Lists the folder of a split. Throws DataError if it has no class or a class has no image.
RecordIndex ListImageFolder(const std::string& split_dir);

// Returns the sorted paths of all images in a folder and its subfolders, and counts all other files in `ignored`.
// Throws DataError if a folder cannot be listed.
std::vector<std::string> ListImages(const std::string& folder, IgnoredFiles& ignored);

// Returns the cached index of a split if none of its folders has changed since, unless `rebuild`; else lists the folder
// and, if `keep`, caches the index. Overwriting a file in place does not change its folder: `dtrain_data index` lists
// again. `note` is called with the reason if the index cannot be cached. Throws DataError as ListImageFolder does.
RecordIndex IndexImageFolder(const std::string& split_dir, const std::string& index_path, bool rebuild,
                             const std::function<void(std::string)>& note, bool keep = true);

inline constexpr char kImageFolderLayout[] =
    "the layout is DATA_DIR/train/CLASS/*.jpg and DATA_DIR/val/CLASS/*.jpg (or .png, .webp, .tif, .bmp, .ppm)";

}  // namespace dtrain::data
