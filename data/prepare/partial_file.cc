#include "data/prepare/partial_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "data/careful_open.h"
#include "data/error.h"

namespace dtrain::data {
namespace {

[[noreturn]] void FailToWrite(const std::string& path) {
  throw Error(ExitCode::kStorage, "cannot write " + path + ": " + std::strerror(errno),
              "make room or choose another --output, then run the same command again");
}

}  // namespace

PartialFile::PartialFile(std::string path, const std::string& ending)
    : path_(std::move(path)),
      partial_path_(path_ + ending),
      unfinished_(partial_path_),
      descriptor_(CreateAnew(partial_path_)) {
  if (descriptor_ < 0) FailToWrite(partial_path_);
}

PartialFile::~PartialFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(partial_path_.c_str());
}

void PartialFile::Append(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) FailToWrite(partial_path_);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void PartialFile::Sync() {
  if (fsync(descriptor_) != 0) FailToWrite(partial_path_);
}

void PartialFile::Publish() {
  Sync();
  if (close(std::exchange(descriptor_, -1)) != 0 || rename(partial_path_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    unlink(partial_path_.c_str());
    errno = reason;
    FailToWrite(path_);
  }
}

void PublishFile(const std::string& path, std::string_view content) {
  PartialFile file(path);
  file.Append(content);
  file.Publish();
}

}  // namespace dtrain::data
