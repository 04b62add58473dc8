// A file that grows by whole pieces: each is added by a single write(2) to a file opened for appending, so that a
// reader (or a crash of this process) sees whole ones.
#pragma once

#include <filesystem>
#include <string_view>

namespace dtrain::report {

// All failures are StorageError.
class AppendFile {
 public:
  // Opens or creates the file; its folder must exist.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // What could be written in part only is taken back.
  void Append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace dtrain::report
