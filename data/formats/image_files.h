// Image files without classes, whose classes a model is to predict.
#pragma once

#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

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
