#include "data/formats/image_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "data/error.h"
#include "data/formats/image_folder.h"
#include "data/formats/random_access_file.h"
#include "data/formats/record_format.h"

namespace dtrain::data {

ImageFiles::ImageFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      throw DataError("cannot read " + path + ": " + std::strerror(errno), "name folders of images, or images");
    }
    if (S_ISDIR(status.st_mode)) {
      const std::vector<std::string> found = ListImages(path, ignored_);
      files_.insert(files_.end(), found.begin(), found.end());
    } else {
      files_.push_back(path);
    }
  }
  if (!files_.empty()) return;
  const std::string others = ToText(ignored_);
  throw DataError(
      "there is no image in " + (paths.empty() ? "" : paths.front()) + (others.empty() ? "" : "; " + others),
      "images are read from .jpg, .png, .webp, .tif, .bmp and .ppm");
}

std::vector<uint8_t> ImageFiles::Read(int64_t index) const {
  return ReadWholeFile(files_[static_cast<size_t>(index)], kMostRecordBytes);
}

}  // namespace dtrain::data
