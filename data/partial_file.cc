// The signal handler may call only unlink and the like, so it reads the names from a table of fixed size without locks.
#include "data/partial_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "data/careful_open.h"
#include "data/error.h"
#include "data/signals.h"

namespace dtrain::data {
namespace {

std::array<std::atomic<const char*>, 1024> unfinished{};
std::atomic<bool> is_ending = false;
static_assert(std::atomic<const char*>::is_always_lock_free, "a signal handler may not wait for a lock");

void OnSignal(int signal) {
  is_ending = true;
  for (const auto& slot : unfinished) {
    if (const char* const path = slot) unlink(path);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);  // is delivered when the handler returns
}

[[noreturn]] void FailToWrite(const std::string& path) {
  throw Error(ExitCode::kStorage, "cannot write " + path + ": " + std::strerror(errno),
              "make room or choose another --output, then run the same command again");
}

}  // namespace

void RemoveUnfinishedFilesOnSignals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (!IsIgnored(signal)) HandleSignal(signal, &OnSignal);
  }
}

UnfinishedFile::UnfinishedFile(std::string path) : path_(std::move(path)) {
  for (size_t i = 0; i < unfinished.size() && slot_ < 0; ++i) {
    const char* free = nullptr;
    if (unfinished[i].compare_exchange_strong(free, path_.c_str())) slot_ = static_cast<int>(i);
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (slot_ >= 0) unfinished[static_cast<size_t>(slot_)] = nullptr;
  while (is_ending) pause();  // the handler, on another thread, may be reading path_
}

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
