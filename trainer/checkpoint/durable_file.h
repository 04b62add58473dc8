// Writes files that are on the disk when the call returns; otherwise it throws. All writing, syncing and renaming
// happens here, so that every short write, full disk and failing fsync or close is noticed. No torch in here.
// Each write, fsync, close and rename asks for a fault to inject (DTRAIN_CRASH_AT, DTRAIN_FAIL_AT). An injected failure
// is ENOSPC for a write (after half of it) and EIO for the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/sha256.h"

namespace dtrain::checkpoint {

struct FileDigest {
  uint64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits
};

// A file that is written from its beginning. All methods throw StorageError with the path and the system's reason.
class DurableFile {
 public:
  // Creates the file, in a folder that must exist. Whatever has its name is removed first; links are not followed
  // (data/written_file.h).
  explicit DurableFile(std::filesystem::path path);
  // Closes a file that was not finished and leaves it behind: the caller, who chose its name, removes it.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void Append(const void* data, size_t bytes);
  void Append(std::string_view text) { Append(text.data(), text.size()); }

  // Syncs and closes the file. Called once, as the last method.
  FileDigest Finish();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
  data::Sha256 sha256_;
};

// Throws StorageError "cannot ACTION PATH: REASON" for a failed system call, with a hint that fits `error_number`.
[[noreturn]] void ThrowSystemError(const std::string& action, const std::filesystem::path& path, int error_number);

// Makes a folder with those above it, if it is not there. Throws StorageError, whose message calls it `what`.
void MakeFolder(const std::filesystem::path& folder, const std::string& what = "the folder");

// Makes the entries of a folder durable. Ignores that some file systems cannot sync a folder (EINVAL, ENOTSUP).
void SyncDirectory(const std::filesystem::path& directory);

// Renames `from`, then syncs the folder of `to`. Replaces an existing file at `to`; throws StorageError if `to` is a
// folder that is not empty.
void RenameDurably(const std::filesystem::path& from, const std::filesystem::path& to);

// Replaces `path` as a whole: whatever happens, a reader finds the old content or the new one. `write` fills a
// temporary file (".NAME.tmp" in the same folder), which is removed if anything fails. A path must not have two writers
// at a time.
void WriteAtomically(const std::filesystem::path& path, const std::function<void(DurableFile&)>& write);
void WriteAtomically(const std::filesystem::path& path, std::string_view content);

// Returns the names of a folder's entries; none if it does not exist. Throws StorageError if it cannot be read.
std::vector<std::string> NamesIn(const std::filesystem::path& directory);

// Returns the size of a regular file in bytes, without reading it. Throws StorageError.
uint64_t SizeOfFile(const std::filesystem::path& path);

// Reads a file and returns its size and checksum. Throws StorageError.
FileDigest DigestOfFile(const std::filesystem::path& path);

// Returns the content of a text file. Throws StorageError if it is larger than `max_bytes` or cannot be read.
std::string ReadTextFile(const std::filesystem::path& path, uint64_t max_bytes);

// A file to which whole pieces are appended. Each piece is one write(2) to a file opened for appending, so that readers
// see whole pieces only, also after a crash of this process. Methods throw StorageError if they fail.
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

}  // namespace dtrain::checkpoint
