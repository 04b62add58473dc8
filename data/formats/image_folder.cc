#include "data/formats/image_folder.h"

#include <sys/stat.h>

#include <utility>

#include "data/error.h"
#include "data/formats/image_folder_index.h"
#include "data/formats/random_access_file.h"
#include "data/formats/split_names.h"

namespace dtrain::data {
namespace {

bool IsFolder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::optional<std::string> FindSplit(const std::string& data_dir, const std::string& split) {
  for (const std::string& name : SplitNames(split)) {
    if (IsFolder(data_dir + "/" + name)) return data_dir + "/" + name;
  }
  return std::nullopt;
}

std::string RequireSplit(const std::string& data_dir, const std::string& split) {
  if (auto found = FindSplit(data_dir, split)) return *found;
  if (!IsFolder(data_dir)) throw DataError("there is no folder " + data_dir, kImageFolderLayout);
  std::string tried;
  for (const std::string& name : SplitNames(split)) tried += (tried.empty() ? "" : ", ") + data_dir + "/" + name;
  throw DataError("there is no '" + split + "' split: looked for the folder " + tried, kImageFolderLayout);
}

ImageFolder::ImageFolder(const std::string& split_dir) : ImageFolder(split_dir, ListImageFolder(split_dir)) {}

ImageFolder::ImageFolder(const std::string& split_dir, RecordIndex index)
    : split_dir_(split_dir), index_(std::move(index)) {}

std::vector<uint8_t> ImageFolder::Read(int64_t index) const { return ReadWholeFile(Place(index).file); }

RecordPlace ImageFolder::Place(int64_t index) const {
  const IndexEntry& entry = index_.records[static_cast<size_t>(index)];
  return {split_dir_ + "/" + index_.files[entry.file].name + "/" + &index_.names[entry.offset]};
}

}  // namespace dtrain::data
