// Loops over independent items, of which several are worked on at the same time.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
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

// Calls make(thread, i) for each i in [0, count) on `threads` new threads, numbered from 0, and take(result) on the
// calling thread for each result, in the order of i. At most 4 results per thread wait to be taken. The first exception
// of a call is rethrown after all threads have ended.
template <typename Make, typename Take>
void InOrder(size_t count, size_t threads, const Make& make, const Take& take) {
  using Result = decltype(make(size_t{0}, size_t{0}));
  constexpr size_t kWaitingPerThread = 4;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, Result> made;
  size_t next = 0, taken = 0;
  std::exception_ptr error;
  const auto fail = [&] {
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
    changed.notify_all();
  };
  const auto work = [&](size_t thread) {
    try {
      while (true) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return error || next >= count || next < taken + kWaitingPerThread * threads; });
        if (error || next >= count) return;
        const size_t i = next++;
        lock.unlock();
        Result result = make(thread, i);
        lock.lock();
        made.emplace(i, std::move(result));
        changed.notify_all();
      }
    } catch (...) {
      fail();
    }
  };
  {
    std::vector<Thread> workers;
    try {
      try {
        for (size_t thread = 0; thread < threads; ++thread) workers.emplace_back([&work, thread] { work(thread); });
      } catch (const std::system_error&) {  // the threads that could be started do all the work
        if (workers.empty()) throw;
      }
      for (; taken < count;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return error || made.contains(taken); });
        if (error) break;
        Result result = std::move(made.extract(taken).mapped());
        lock.unlock();
        take(std::move(result));
        lock.lock();
        ++taken;
        changed.notify_all();
      }
    } catch (...) {
      fail();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace dtrain::data
