// A file that is there whole or not at all: written under another name, which it loses at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::data {

// Methods throw Error (exit code 5).
class PartialFile {
 public:
  explicit PartialFile(std::string path);  // opens PATH.partial
  ~PartialFile();                          // removes it, unless it was published
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& partial_path() const { return partial_path_; }
  uint64_t bytes() const { return bytes_; }
  void Append(std::string_view bytes);

  void Sync();     // what was appended is on the disk
  void Publish();  // Sync, and the file takes its own name

 private:
  const std::string path_, partial_path_;
  int descriptor_;
  uint64_t bytes_ = 0;
};

// A small file at once.
void PublishFile(const std::string& path, std::string_view content);

}  // namespace dtrain::data
