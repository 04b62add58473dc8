#include "trainer/report/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "data/careful_open.h"
#include "trainer/checkpoint/durable_file.h"

namespace dtrain::report {

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(data::OpenOrCreate(path_, O_WRONLY | O_APPEND)) {
  if (descriptor_ < 0) checkpoint::ThrowSystemError("open", path_, errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::Append(std::string_view bytes) {
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(bytes.size())) return;
  const int error_number = written < 0 ? errno : ENOSPC;
  struct stat status;  // the part that was written is cut off, so that the next piece does not continue it
  if (written > 0 && ::fstat(descriptor_, &status) == 0) {
    [[maybe_unused]] const int best_effort = ::ftruncate(descriptor_, status.st_size - written);
  }
  checkpoint::ThrowSystemError("write", path_, error_number);
}

}  // namespace dtrain::report
