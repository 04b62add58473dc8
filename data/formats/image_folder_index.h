// ImageFolder's index: all folders listed once, in torchvision's order. Listing millions of files on a network file
// system takes minutes, so the result is kept (record_index.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/formats/ignored_files.h"
#include "data/formats/record_index.h"

namespace dtrain::data {

bool IsFolder(const std::string& path);

// Lists the folder of a split. Throws DataError where it has no class, or a class has no image.
RecordIndex ListImageFolder(const std::string& split_dir);

// The paths of all images in a folder and in its folders, sorted; what is no image is counted in `ignored`.
std::vector<std::string> ListImages(const std::string& folder, IgnoredFiles& ignored);

// The cached index of a split where none of its folders has changed since, else a new one, which is cached. A file that
// was overwritten in place does not change its folder: `dtrain_data index` lists anew. `note` hears what went wrong in
// caching, which is left out with `keep` false.
RecordIndex IndexImageFolder(const std::string& split_dir, const std::string& index_path, bool rebuild,
                             const std::function<void(std::string)>& note, bool keep = true);

inline constexpr char kImageFolderLayout[] =
    "the layout is DATA_DIR/train/CLASS/*.jpg and DATA_DIR/val/CLASS/*.jpg (or .png, .webp, .tif, .bmp, .ppm)";

}  // namespace dtrain::data
