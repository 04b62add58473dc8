// A loop over independent items, each of which waits for storage: on a network file system every call costs a round
// trip.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <vector>

#include "data/machine/thread.h"

namespace dtrain::data {

inline constexpr size_t kStorageThreads = 16;  // concurrent calls that a network file system serves well

// Calls work(i) for each i in [0, count) on the calling thread and on further threads, if there are enough items for
// several threads. If a call throws, the remaining items are skipped, and the first exception is rethrown after all
// threads have ended.
template <typename Work>
void InParallel(size_t count, const Work& work, size_t items_per_thread = 512, size_t most_threads = kStorageThreads) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<Thread> threads;
    try {
      for (size_t i = 1; i < std::min(most_threads, count / items_per_thread); ++i) threads.emplace_back(run);
    } catch (const std::system_error&) {  // the threads that could be started do all the work
    }
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace dtrain::data
