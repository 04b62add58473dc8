// A file to which whole pieces are appended. Each piece is one write(2) to a file opened for appending, so that readers
// see whole pieces only, also after a crash of this process.
#pragma once

#include <filesystem>
#include <string_view>

namespace dtrain::report {

// Methods throw StorageError if they fail.
class AppendFile {
 public:
  // Opens or creates the file; its folder must exist.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Appends `bytes` as one piece. If only a part could be written, removes that part and throws.
  void Append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace dtrain::report
