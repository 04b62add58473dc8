// Where data lies. All that reads or lists data goes through here, so that data may lie elsewhere than in a file
// system: an object store is a Storage in a file of its own, and a row of the table in storage.cc. What is written
// (indexes, packs, checkpoints) must appear whole and at once, so it lies in a file system.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/error.h"

namespace dtrain::data {

// The input of a parser: a file, or bytes in memory. All parsers of record files take this interface, so that the same
// code scans a file, parses a record that was read, and is tested and fuzzed without a file.
class ReadableBytes {
 public:
  virtual ~ReadableBytes() = default;
  virtual uint64_t size() const = 0;
  // Reads exactly `size` bytes from `offset` on. Throws DataError if there are fewer. Safe to call from many threads.
  virtual void Read(uint64_t offset, uint64_t size, void* destination) const = 0;
  std::vector<uint8_t> ReadBytes(uint64_t offset, uint64_t size) const {
    std::vector<uint8_t> bytes(size);
    Read(offset, size, bytes.data());
    return bytes;
  }
};

// Bytes that belong to the caller and must outlive this object.
class MemoryBytes : public ReadableBytes {
 public:
  explicit MemoryBytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void Read(uint64_t offset, uint64_t size, void* destination) const override {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      throw DataError("the record ends before byte " + std::to_string(offset + size));
    }
    if (size > 0) std::memcpy(destination, bytes_.data() + offset, size);
  }

 private:
  std::span<const uint8_t> bytes_;
};

enum class PathKind {
  kNothing,
  kFile,
  kFolder,
  kOther,  // a pipe, a device, a link that leads nowhere
};

// What a storage knows of a path without opening it. Links count as what they lead to.
struct PathStatus {
  PathKind kind = PathKind::kNothing;
  uint64_t bytes = 0;                           // of a file
  int64_t modified_ns = 0;                      // nanoseconds since 1970
  std::pair<uint64_t, uint64_t> identity = {};  // the same for all names of one folder
  std::string problem = {};                     // why nothing is known of it, such as "Permission denied"
};

// A file system, or whatever else holds files in folders. Safe to call from many threads.
class Storage {
 public:
  virtual ~Storage() = default;

  // Opens a file. Throws DataError, which names it and the reason, also if it is anything but a file.
  virtual std::unique_ptr<const ReadableBytes> Open(const std::string& path) const = 0;

  virtual PathStatus Stat(const std::string& path) const = 0;

  // Calls `visit` with the name (without its path) and the kind of each entry of a folder, in any order, until it
  // returns false. Throws DataError, which names the folder and the reason, if it cannot be listed.
  using Visit = std::function<bool(const std::string& name, PathKind kind)>;
  virtual void List(const std::string& folder, const Visit& visit) const = 0;
};

// Returns the storage of a path, judged by what it begins with. It lives until the process ends.
const Storage& StorageOf(const std::string& path);

// Whether files can be written there: it is in a file system.
bool IsWritable(const std::string& path);

inline PathStatus Stat(const std::string& path) { return StorageOf(path).Stat(path); }
inline bool Exists(const std::string& path) { return Stat(path).kind != PathKind::kNothing; }
inline bool IsFile(const std::string& path) { return Stat(path).kind == PathKind::kFile; }
inline bool IsFolder(const std::string& path) { return Stat(path).kind == PathKind::kFolder; }
inline void List(const std::string& folder, const Storage::Visit& visit) { StorageOf(folder).List(folder, visit); }

// An open file with its name.
class RandomAccessFile : public ReadableBytes {
 public:
  // Throws DataError as Storage::Open does.
  explicit RandomAccessFile(const std::string& path) : path_(path), bytes_(StorageOf(path).Open(path)) {}

  const std::string& path() const { return path_; }
  uint64_t size() const override { return bytes_->size(); }  // at the time of opening
  void Read(uint64_t offset, uint64_t size, void* destination) const override {
    bytes_->Read(offset, size, destination);
  }

 private:
  std::string path_;
  std::unique_ptr<const ReadableBytes> bytes_;
};

// Returns the content of a file. Throws DataError if it cannot be read or, before anything is read, if it has more than
// `most` bytes.
std::vector<uint8_t> ReadWholeFile(const std::string& path, uint64_t most = UINT64_MAX);

// The same as text.
std::string ReadWholeText(const std::string& path, uint64_t most = UINT64_MAX);

// The same, unless the file needs more memory than there is: of texts that are read, or kept as tokens, as a whole.
// RequireRoomInMemory checks that alone.
std::string ReadIntoMemory(const std::string& path);
void RequireRoomInMemory(const std::string& path);

// Returns the first bytes of a file, at most `most`. Throws DataError if it cannot be read.
std::vector<uint8_t> ReadBeginning(const std::string& path, uint64_t most);

// Returns the whole lines of a file that begin in [begin, begin + bytes), unchanged, so that neighbouring ranges have
// each line once. Here, lines end with \n. Throws DataError if the file cannot be read.
std::string LinesBeginningIn(const ReadableBytes& file, uint64_t begin, uint64_t bytes);

// Returns the content of a small optional text beside the data (class names, a pack's recipe, MXNet's index); empty if
// it does not exist. Throws as ReadWholeFile does.
std::string TextBeside(const std::string& path, uint64_t most = uint64_t{64} << 20);

// Returns the folder that a file of this name lies in; FolderAt: of a path that may be the folder itself.
std::string FolderOf(const std::string& file);
std::string FolderAt(const std::string& path);

inline std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace dtrain::data
