// The signal handler may call only unlink and the like, so it reads the names from a table of fixed size without locks.
#include "data/unfinished_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <utility>

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

}  // namespace

void RemoveUnfinishedFilesOnSignals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (std::signal(signal, &OnSignal) == SIG_IGN) std::signal(signal, SIG_IGN);
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

}  // namespace dtrain::data
