#include "data/storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "data/machine/limits.h"

namespace dtrain::data {

namespace {

// ---- Files of this machine, and of the network file systems that it mounts ----
//
// They are read with pread rather than mmap, so that a file that another process shortens causes an error that can be
// reported rather than SIGBUS.

PathKind KindOf(mode_t mode) {
  return S_ISREG(mode) ? PathKind::kFile : S_ISDIR(mode) ? PathKind::kFolder : PathKind::kOther;
}

class PosixFile : public ReadableBytes {
 public:
  // With O_NONBLOCK, opening a named pipe does not block; it is refused then.
  explicit PosixFile(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) throw DataError("cannot open " + path + ": " + std::strerror(errno));
    struct stat status {};
    std::string problem;
    if (fstat(descriptor_, &status) != 0) {
      problem = std::strerror(errno);
    } else if (!S_ISREG(status.st_mode)) {
      problem = S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file";
    }
    if (!problem.empty()) {
      close(descriptor_);
      throw DataError("cannot read " + path + ": " + problem, "name a file");
    }
    size_ = static_cast<uint64_t>(status.st_size);
  }
  ~PosixFile() override { close(descriptor_); }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  uint64_t size() const override { return size_; }

  void Read(uint64_t offset, uint64_t size, void* destination) const override {
    auto* next = static_cast<char*>(destination);
    while (size > 0) {
      const ssize_t got = pread(descriptor_, next, size, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        throw DataError("cannot read " + path_ + " at byte " + std::to_string(offset) + ": " + std::strerror(errno));
      }
      if (got == 0) {
        throw DataError(path_ + " ends at byte " + std::to_string(offset) + ", " + std::to_string(size) +
                        " bytes too early");
      }
      next += got;
      offset += static_cast<uint64_t>(got);
      size -= static_cast<uint64_t>(got);
    }
  }

 private:
  const std::string path_;
  const int descriptor_;
  uint64_t size_ = 0;
};

class PosixStorage : public Storage {
 public:
  std::unique_ptr<const ReadableBytes> Open(const std::string& path) const override {
    return std::make_unique<PosixFile>(path);
  }

  PathStatus Stat(const std::string& path) const override {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      const std::string problem = std::strerror(errno);
      const bool is_link = lstat(path.c_str(), &status) == 0;
      return {.kind = is_link ? PathKind::kOther : PathKind::kNothing, .problem = problem};
    }
    const PathKind kind = KindOf(status.st_mode);
    return {.kind = kind,
            .bytes = kind == PathKind::kFile ? static_cast<uint64_t>(status.st_size) : 0,
            .modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
            .identity = {status.st_dev, status.st_ino}};
  }

  void List(const std::string& folder, const Visit& visit) const override {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
    if (!entries) throw DataError("cannot list " + folder + ": " + std::strerror(errno));
    while (true) {
      errno = 0;
      const dirent* entry = readdir(entries.get());
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      const bool unsure = entry->d_type == DT_UNKNOWN || entry->d_type == DT_LNK;
      if (!visit(name, unsure ? Stat(folder + "/" + name).kind : KindOf(DTTOIF(entry->d_type)))) return;
    }
    if (errno != 0) throw DataError("cannot list " + folder + ": " + std::strerror(errno));
  }
};

const Storage& FileSystem() {
  static const PosixStorage storage;
  return storage;
}

// ---- All storages ----

struct Row {
  std::string_view beginning;  // of the paths in this storage, such as "s3://"
  const Storage& (*storage)();
};

// The first row that fits holds. A new storage is a row before the last one, and its function in a file of its own.
constexpr Row kStorages[] = {
    {"", FileSystem},
};

const Row& RowOf(const std::string& path) {
  const Row* row = kStorages;
  while (!path.starts_with(row->beginning)) ++row;
  return *row;
}

template <typename Bytes>
Bytes ReadWhole(const std::string& path, uint64_t most) {
  const RandomAccessFile file(path);
  if (file.size() > most) {
    throw DataError(path + " has " + std::to_string(file.size()) + " bytes, more than the limit of " +
                    std::to_string(most));
  }
  Bytes bytes;
  bytes.resize(file.size());
  file.Read(0, bytes.size(), bytes.data());
  return bytes;
}

// Returns the offset behind the first \n at or after `from`; `limit` if there is none before it.
uint64_t BehindLineEnd(const ReadableBytes& file, uint64_t from, uint64_t limit) {
  uint64_t step = 1 << 16;
  std::string bytes;
  while (from < limit) {
    bytes.resize(std::min(step, limit - from));
    file.Read(from, bytes.size(), bytes.data());
    if (const size_t end = bytes.find('\n'); end != std::string::npos) return from + end + 1;
    from += bytes.size();
    step = std::min<uint64_t>(2 * step, uint64_t{1} << 24);
  }
  return limit;
}

}  // namespace

const Storage& StorageOf(const std::string& path) { return RowOf(path).storage(); }

bool IsWritable(const std::string& path) { return RowOf(path).beginning.empty(); }

std::vector<uint8_t> ReadWholeFile(const std::string& path, uint64_t most) {
  return ReadWhole<std::vector<uint8_t>>(path, most);
}

std::string ReadWholeText(const std::string& path, uint64_t most) { return ReadWhole<std::string>(path, most); }

void RequireRoomInMemory(const std::string& path) {
  const uint64_t bytes = Stat(path).bytes, room = static_cast<uint64_t>(AvailableMemory());
  if (bytes <= room || room == 0) return;  // 0: the system does not say
  throw DataError(path + " has " + std::to_string(bytes >> 20) + " MiB, but only " + std::to_string(room >> 20) +
                      " MiB of memory are available, and texts are read as a whole",
                  "check that the file is what it should be; a smaller one, or a machine with more memory");
}

std::string ReadIntoMemory(const std::string& path) {
  RequireRoomInMemory(path);
  return ReadWholeText(path);
}

std::vector<uint8_t> ReadBeginning(const std::string& path, uint64_t most) {
  const RandomAccessFile file(path);
  return file.ReadBytes(0, std::min(file.size(), most));
}

std::string LinesBeginningIn(const ReadableBytes& file, uint64_t begin, uint64_t bytes) {
  const uint64_t limit = std::min(file.size(), begin + bytes);
  // A line begins at the start of the file and behind each \n.
  const uint64_t first = begin == 0 ? 0 : BehindLineEnd(file, begin - 1, limit);
  if (first >= limit) return "";
  const uint64_t end = BehindLineEnd(file, limit - 1, file.size());
  std::string lines(end - first, '\0');
  file.Read(first, lines.size(), lines.data());
  return lines;
}

std::string TextBeside(const std::string& path, uint64_t most) { return Exists(path) ? ReadWholeText(path, most) : ""; }

std::string FolderOf(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string FolderAt(const std::string& path) { return IsFile(path) ? FolderOf(path) : path; }

}  // namespace dtrain::data
