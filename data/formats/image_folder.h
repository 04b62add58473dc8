// One folder per class, one file per image: torchvision's ImageFolder, same classes, same order, same indices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/record_index.h"
#include "data/record_source.h"

namespace dtrain::data {

// The folder of one split below data_dir: `data_dir/split`, for "val" also `validation` and `valid`. nullopt if there
// is none.
std::optional<std::string> FindSplit(const std::string& data_dir, const std::string& split);

// The same, but throws DataError saying what was looked for and what the layout should be.
std::string RequireSplit(const std::string& data_dir, const std::string& split);

// Files of SPLIT_DIR/CLASS/**/ with a known extension (ignored_files.h); other programs' files and folders are none.
// Classes are the sorted folder names; within a class, folders and then files in them are sorted by name. Links are
// followed, loops are not. Files are listed once and opened at each Read.
class ImageFolder : public RecordSource {
 public:
  // Lists the folder. Throws DataError where it is missing or has no class, or a class has no image (as torchvision
  // does).
  explicit ImageFolder(const std::string& split_dir);
  // With what was listed before: IndexImageFolder (image_folder_index.h). Where `classes` of the set are known, their
  // names say which folder has which label, and a folder that is none of them is a DataError; where only their number
  // is, there must be as many folders.
  ImageFolder(const std::string& split_dir, RecordIndex index, const Classes& classes = {});

  int64_t size() const override { return static_cast<int64_t>(index_.records.size()); }
  int64_t Label(int64_t index) const override { return index_.records[static_cast<size_t>(index)].label; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return index_.class_names; }
  IgnoredFiles ignored() const override { return index_.ignored; }
  std::string fingerprint() const override { return index_.fingerprint; }

 private:
  void TakeClasses(const Classes& classes);

  std::string split_dir_;
  RecordIndex index_;
};

}  // namespace dtrain::data
