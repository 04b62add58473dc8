// Image files without classes: what somebody wants to know the classes of.
#pragma once

#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

class ImageFiles : public RecordSource {
 public:
  // Files are taken as they are; of folders every image in them and in their folders, sorted by path. Throws DataError
  // where a path is missing or there is no image.
  explicit ImageFiles(const std::vector<std::string>& paths);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override { return {files_[static_cast<size_t>(index)]}; }
  IgnoredFiles ignored() const override { return ignored_; }
  std::string fingerprint() const override { return ""; }  // nothing goes on with these files later

 private:
  std::vector<std::string> files_;
  IgnoredFiles ignored_;
};

}  // namespace dtrain::data
