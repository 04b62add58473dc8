// Processes many pieces on several threads and hands out the results one by one, in the order of the pieces.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace dtrain::data {

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
    std::vector<std::jthread> workers;
    try {
      for (size_t thread = 0; thread < threads; ++thread) workers.emplace_back(work, thread);
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
