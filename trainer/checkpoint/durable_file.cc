#include "trainer/checkpoint/durable_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "data/written_file.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace fs = std::filesystem;
namespace {

// Test hooks: each write, fsync, close and rename asks whether it is to fail. They are set by environment variables,
// because the process under test is often a real dtrain_main.
//   DTRAIN_CRASH_AT=n     the process kills itself (SIGKILL) at the n-th operation (half-way through if it is a write)
//   DTRAIN_FAIL_AT=n[:k]  operations n … n+k-1 fail (k = 1 unless given)
// Operations are counted from 1 in each process, and only while one of the two variables is set.
enum class Fault { kNone, kFail, kCrash };

// Counts one operation and returns the fault to inject into it. Thread-safe.
Fault NextFault() {
  const char* crash_at = std::getenv("DTRAIN_CRASH_AT");
  const char* fail_at = std::getenv("DTRAIN_FAIL_AT");
  if (crash_at == nullptr && fail_at == nullptr) return Fault::kNone;

  static std::atomic<int64_t> operations{0};
  static std::atomic<pid_t> counted{::getpid()};
  if (counted.exchange(::getpid()) != ::getpid()) operations = 0;  // each forked rank counts its own operations
  const int64_t operation = ++operations;
  if (crash_at != nullptr && operation == std::atoll(crash_at)) return Fault::kCrash;
  if (fail_at != nullptr) {
    char* end = nullptr;
    const int64_t first = std::strtoll(fail_at, &end, 10);
    const int64_t count = *end == ':' ? std::atoll(end + 1) : 1;
    if (operation >= first && operation - first < count) return Fault::kFail;
  }
  return Fault::kNone;
}

// Kills this process with SIGKILL.
[[noreturn]] void Crash() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// For an operation that happens as a whole or not at all: crashes, or returns whether the operation is to fail.
bool NextOperationFails() {
  const Fault fault = NextFault();
  if (fault == Fault::kCrash) Crash();
  return fault == Fault::kFail;
}

constexpr size_t kWriteBytes = size_t{16} << 20;  // of one write(2) at most
constexpr size_t kReadBytes = size_t{1} << 20;

std::string HintFor(int error_number) {
  if (!data::IsFull(error_number)) return data::HintOnWriting(error_number);
  return "free some space (or quota; a lower --keep_checkpoints needs less), or write elsewhere; existing checkpoints "
         "are intact";
}

// A descriptor of a regular file opened for reading.
class InputFile {
 public:
  explicit InputFile(const fs::path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // never hangs on a pipe
    if (descriptor_ < 0) ThrowSystemError("open", path, errno);
    struct stat status;
    const bool known = ::fstat(descriptor_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw StorageError(path.string() + " is not a regular file", data::HintOnWriting(EISDIR));
    }
    bytes_ = static_cast<uint64_t>(status.st_size);
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t bytes() const { return bytes_; }

  // Returns the number of bytes read, 0 at the end.
  size_t Read(char* destination, size_t bytes) {
    for (;;) {
      const ssize_t got = ::read(descriptor_, destination, bytes);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) ThrowSystemError("read", path_, errno);
    }
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
};

fs::path ParentOf(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

}  // namespace

void ThrowSystemError(const std::string& action, const fs::path& path, int error_number) {
  throw StorageError("cannot " + action + " " + path.string() + ": " + std::generic_category().message(error_number),
                     HintFor(error_number));
}

DurableFile::DurableFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = data::CreateAnew(path_);
  if (descriptor_ < 0) ThrowSystemError("create", path_, errno);
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DurableFile::Append(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  if (bytes > 0) sha256_.Update(data, bytes);
  bytes_ += bytes;
  while (bytes > 0) {
    const Fault fault = NextFault();
    const size_t part = std::min(bytes, kWriteBytes);
    const ssize_t written = ::write(descriptor_, next, fault == Fault::kNone ? part : part / 2);
    if (fault == Fault::kCrash) Crash();
    if (fault == Fault::kFail) ThrowSystemError("write", path_, ENOSPC);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) ThrowSystemError("write", path_, errno);
    if (written == 0) ThrowSystemError("write", path_, EIO);  // no progress and no reason: must not loop forever
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

FileDigest DurableFile::Finish() {
  if (NextOperationFails()) ThrowSystemError("sync", path_, EIO);
  if (::fsync(descriptor_) != 0) ThrowSystemError("sync", path_, errno);
  // Drops the pages, so that reading the file back tests the disk and the memory is free for data. This is only advice.
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  const bool fail = NextOperationFails();
  const int closed = ::close(std::exchange(descriptor_, -1));  // never called twice, whatever it returns
  if (fail) ThrowSystemError("close", path_, EIO);
  if (closed != 0) ThrowSystemError("close", path_, errno);
  return {bytes_, sha256_.Hex()};
}

void MakeFolder(const fs::path& folder, const std::string& what) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  std::error_code ignored;
  for (fs::path part = folder; part.has_relative_path(); part = part.parent_path()) {
    if (!fs::is_symlink(part, ignored) || fs::exists(part, ignored)) continue;
    throw StorageError(
        part.string() + " is a link to " + fs::read_symlink(part, ignored).string() + ", which is not there",
        "mount its file system, or make that folder");
  }
  ThrowSystemError("create " + what, folder, error.value());
}

void SyncDirectory(const fs::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) ThrowSystemError("open folder", directory, errno);
  const bool fail = NextOperationFails();
  int error_number = ::fsync(descriptor) == 0 ? 0 : errno;
  if (error_number == EINVAL || error_number == ENOTSUP) error_number = 0;
  if (fail) error_number = EIO;
  ::close(descriptor);
  if (error_number != 0) ThrowSystemError("sync folder", directory, error_number);
}

void RenameDurably(const fs::path& from, const fs::path& to) {
  if (NextOperationFails()) ThrowSystemError("rename to", to, EIO);
  if (::rename(from.c_str(), to.c_str()) != 0) ThrowSystemError("rename to", to, errno);
  SyncDirectory(ParentOf(to));
}

void WriteAtomically(const fs::path& path, const std::function<void(DurableFile&)>& write) {
  const fs::path temporary = ParentOf(path) / ("." + path.filename().string() + ".tmp");
  const data::UnfinishedFile unfinished(temporary.string());
  try {
    DurableFile file(temporary);
    write(file);
    file.Finish();
    RenameDurably(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void WriteAtomically(const fs::path& path, std::string_view content) {
  WriteAtomically(path, [content](DurableFile& file) { file.Append(content); });
}

std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    ThrowSystemError("list", directory, error.value());
  }
  return names;
}

uint64_t SizeOfFile(const fs::path& path) { return InputFile(path).bytes(); }

FileDigest DigestOfFile(const fs::path& path) {
  InputFile file(path);
  data::Sha256 sha256;
  FileDigest digest;
  std::vector<char> buffer(kReadBytes);
  while (const size_t got = file.Read(buffer.data(), buffer.size())) {
    sha256.Update(buffer.data(), got);
    digest.bytes += got;
  }
  digest.sha256 = sha256.Hex();
  return digest;
}

std::string ReadTextFile(const fs::path& path, uint64_t max_bytes) {
  InputFile file(path);
  if (file.bytes() > max_bytes) {
    throw StorageError(path.string() + " has " + std::to_string(file.bytes()) + " bytes, more than the " +
                       std::to_string(max_bytes) + " that such a file can have");
  }
  std::string text(file.bytes(), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const size_t got = file.Read(text.data() + filled, text.size() - filled);
    if (got == 0) break;
    filled += got;
  }
  text.resize(filled);
  return text;
}

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(data::OpenOrCreate(path_, O_WRONLY | O_APPEND)) {
  if (descriptor_ < 0) checkpoint::ThrowSystemError("open", path_, errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::Append(std::string_view bytes) {
  if (!data::AppendWhole(descriptor_, bytes)) checkpoint::ThrowSystemError("write", path_, errno);
}

}  // namespace dtrain::checkpoint
