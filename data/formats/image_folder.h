// One folder per class, one file per image: torchvision's ImageFolder, with the same classes, order and indices.
// Listing millions of files on a network file system takes minutes, so the list is cached (record_index.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/folder_names.h"
#include "data/formats/record_index.h"
#include "data/record_source.h"

namespace dtrain::data {

// Lists the folder of a split. Throws DataError if it has no class or a class has no image.
RecordIndex ListImageFolder(const std::string& split_dir);

// Returns the kept index of a split if none of its folders has changed since; else lists the folder. Overwriting a file
// in place does not change its folder: `dtrain_data index` lists again. Throws DataError as ListImageFolder does.
RecordIndex IndexImageFolder(const std::string& split_dir, const KeptIndex& kept);

// Returns the folder of a split: `data_dir/split`, for "val" also `validation` and `valid`. Empty if there is none.
std::optional<std::string> FindSplit(const std::string& data_dir, const std::string& split);

// The same, but throws DataError, which says which folders were tried and what the layout should be.
std::string RequireSplit(const std::string& data_dir, const std::string& split);

// The records are the files in SPLIT_DIR/CLASS/**/ with the extension of an image; names that are never data are
// skipped (folder_names.h). The classes are the sorted folder names. Within a class, folders are sorted by path and
// their files by name. Links to folders are followed, except into a folder that contains the link. Files are listed
// once and opened at each Read.
class ImageFolder : public RecordSource {
 public:
  // Lists the folder. Throws DataError if it does not exist, has no class, or has a class without images (as
  // torchvision does).
  explicit ImageFolder(const std::string& split_dir);
  // Uses an index from IndexImageFolder. If `classes` has names, they give the folders their
  // labels, and a folder with another name throws DataError; if it has only a count, there must be as many folders.
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

// Image files without classes, whose classes a model is to predict.
class ImageFiles : public RecordSource {
 public:
  // Takes every path that is a file, and of a folder all images in it and its subfolders, sorted by path. Throws
  // DataError if a path does not exist or there is no image.
  explicit ImageFiles(const std::vector<std::string>& paths);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override { return {files_[static_cast<size_t>(index)]}; }
  IgnoredFiles ignored() const override { return ignored_; }
  std::string fingerprint() const override { return ""; }  // no run resumes with these files

 private:
  std::vector<std::string> files_;
  IgnoredFiles ignored_;
};

}  // namespace dtrain::data
