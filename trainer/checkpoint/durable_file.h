// Files that are on the disk when the call returns, or an error: the one place that writes, syncs and renames, so that
// every short write, full disk and failing fsync or close is noticed once and everywhere. Knows nothing of torch.
// Each write, fsync, close and rename made here is one operation of fault_points.h: an injected failure is ENOSPC for a
// write (after half of it) and EIO for the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "data/sha256.h"

namespace dtrain::checkpoint {

struct FileDigest {
  uint64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits
};

// One file being written from its beginning. All failures are StorageError with the path and the system's reason.
class DurableFile {
 public:
  // Creates the file. What has its name already is removed, and a link not followed (data/careful_open.h). The folder
  // must exist.
  explicit DurableFile(std::filesystem::path path);
  // A file that was not finished is closed and left behind: whoever chose its name removes it.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void Append(const void* data, size_t bytes);
  void Append(std::string_view text) { Append(text.data(), text.size()); }

  // Syncs and closes. To be called once, last.
  FileDigest Finish();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
  data::Sha256 sha256_;
};

// A system call failed: throws StorageError "cannot ACTION PATH: REASON" with a hint that fits the reason.
[[noreturn]] void ThrowSystemError(const std::string& action, const std::filesystem::path& path, int error_number);

// Makes the entries of a folder durable. File systems that cannot sync a folder (EINVAL, ENOTSUP) are let pass.
void SyncDirectory(const std::filesystem::path& directory);

// Renames and syncs the target's folder. An existing file at `to` is replaced; an existing non-empty folder is an
// error.
void RenameDurably(const std::filesystem::path& from, const std::filesystem::path& to);

// Replaces `path` as a whole: whatever happens, a reader finds the old content or the new one. `write` fills a
// temporary file (".NAME.tmp" in the same folder), which is removed if anything fails. Not for two writers of one path.
void WriteAtomically(const std::filesystem::path& path, const std::function<void(DurableFile&)>& write);
void WriteAtomically(const std::filesystem::path& path, std::string_view content);

// The size of a regular file, without reading it. Throws StorageError.
uint64_t SizeOfFile(const std::filesystem::path& path);

// The size and checksum of a file as it is on the disk now. Throws StorageError.
FileDigest DigestOfFile(const std::filesystem::path& path);

// A whole text file of at most `max_bytes`. Throws StorageError when it is larger or cannot be read.
std::string ReadTextFile(const std::filesystem::path& path, uint64_t max_bytes);

}  // namespace dtrain::checkpoint
