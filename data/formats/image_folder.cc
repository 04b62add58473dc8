#include "data/formats/image_folder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/error.h"
#include "data/formats/image_folder_index.h"
#include "data/formats/random_access_file.h"
#include "data/formats/record_format.h"
#include "data/formats/split_names.h"
#include "data/joined.h"

namespace dtrain::data {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > kShown ? text + ", …" : text;
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
  const std::string tried =
      Joined(SplitNames(split), ", ", [&](const std::string& name) { return data_dir + "/" + name; });
  throw DataError("there is no '" + split + "' split: looked for the folder " + tried,
                  kImageFolderLayout + std::string("; if the class folders are in DATA_DIR itself, train with "
                                                   "--train_split=. --val_fraction=0.1, or dtrain_data --split=."));
}

ImageFolder::ImageFolder(const std::string& split_dir) : ImageFolder(split_dir, ListImageFolder(split_dir)) {}

ImageFolder::ImageFolder(const std::string& split_dir, RecordIndex index, const Classes& classes)
    : split_dir_(split_dir), index_(std::move(index)) {
  TakeClasses(classes);
}

void ImageFolder::TakeClasses(const Classes& classes) {
  const std::vector<std::string>& folders = index_.class_names;
  if (classes.names.empty()) {
    const auto count = static_cast<int64_t>(folders.size());
    if (classes.count == 0 || classes.count == count) return;
    throw DataError(
        split_dir_ + " has " + std::to_string(count) + " class folders, but there are " +
            std::to_string(classes.count) + " classes, whose names are unknown",
        "the label of a class is its folder's position in the sorted list of folders: every class needs a folder");
  }
  std::map<std::string, int32_t> labels;
  for (const std::string& name : classes.names) labels.emplace(name, static_cast<int32_t>(labels.size()));
  std::vector<int32_t> label_of;  // by position in `folders`
  std::vector<std::string> unknown;
  for (const std::string& folder : folders) {
    const auto found = labels.find(folder);
    if (found == labels.end()) unknown.push_back(folder);
    label_of.push_back(found == labels.end() ? -1 : found->second);
  }
  if (!unknown.empty()) {
    throw DataError(split_dir_ + " has class folders that are not among the training split's " +
                        std::to_string(classes.names.size()) + " classes: " + Listed(unknown),
                    "remove them, or train with their images as well; a split may lack classes, but not add any");
  }
  for (IndexEntry& entry : index_.records) entry.label = label_of[static_cast<size_t>(entry.label)];
  index_.class_names = classes.names;
}

std::vector<uint8_t> ImageFolder::Read(int64_t index) const {
  return ReadWholeFile(Place(index).file, kMostRecordBytes);
}

RecordPlace ImageFolder::Place(int64_t index) const {
  const IndexEntry& entry = index_.records[static_cast<size_t>(index)];
  return {split_dir_ + "/" + index_.files[entry.file].name + "/" + &index_.names[entry.offset]};
}

}  // namespace dtrain::data
