// Loops over independent items, of which several are worked on at the same time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>
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

// Calls make(thread, i) for each i in [0, count) on `threads` threads, numbered from 0, and meanwhile take(result) for
// each result, in the order of i, one at a time. At most 8 results per thread are there at once. Throws as InParallel.
template <typename Make, typename Take>
void InOrder(size_t count, size_t threads, const Make& make, const Take& take) {
  constexpr size_t kOfThread = 4;
  std::vector<decltype(make(size_t{0}, size_t{0}))> made, before;
  for (size_t begin = 0; begin < count || !before.empty(); begin += before.size()) {
    made.resize(std::min(count - begin, kOfThread * threads));
    const auto work = [&](size_t part) {
      for (size_t i = part; part < threads && i < made.size(); i += threads) made[i] = make(part, begin + i);
      for (size_t i = 0; part == threads && i < before.size(); ++i) take(std::move(before[i]));
    };
    InParallel(threads + 1, work, /*items_per_thread=*/1, /*most_threads=*/threads + 1);
    before = std::exchange(made, {});
  }
}

}  // namespace dtrain::data
