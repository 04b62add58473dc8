// A data set of files that a test makes: file i is called "file-i" and has class 100 + i.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

class FilesInMemory : public RecordSource {
 public:
  explicit FilesInMemory(std::vector<std::vector<uint8_t>> files) : files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t Label(int64_t index) const override { return 100 + index; }
  std::vector<uint8_t> Read(int64_t index) const override { return files_[static_cast<size_t>(index)]; }
  RecordPlace Place(int64_t index) const override { return {"file-" + std::to_string(index)}; }
  std::string fingerprint() const override { return ""; }

 private:
  std::vector<std::vector<uint8_t>> files_;
};

}  // namespace dtrain::data
