// Writes a file that exists completely or not at all: it has another name until it is finished.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/unfinished_file.h"

namespace dtrain::data {

// All methods throw Error (exit code 5).
class PartialFile {
 public:
  explicit PartialFile(std::string path, const std::string& ending = ".partial");  // opens PATH.partial
  ~PartialFile();  // removes PATH.partial unless it was published
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& partial_path() const { return partial_path_; }
  uint64_t bytes() const { return bytes_; }
  void Append(std::string_view bytes);

  void Sync();     // writes everything appended to the disk
  void Publish();  // calls Sync and renames the file to PATH

 private:
  const std::string path_, partial_path_;
  const UnfinishedFile unfinished_;
  int descriptor_;
  uint64_t bytes_ = 0;
};

// Writes a small file in one call.
void PublishFile(const std::string& path, std::string_view content);

}  // namespace dtrain::data
