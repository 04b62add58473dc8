#include "data/machine/thread.h"

#include <gtest/gtest.h>

#include <vector>

#include "data/formats/in_parallel.h"

namespace dtrain::data {
namespace {

thread_local bool came_first = false;

TEST(Thread, CallsWhatComesFirst) {
  std::atomic<int> without = 0;
  const auto look = [&] { without += came_first ? 0 : 1; };
  Thread{look}.join();
  EXPECT_EQ(without, 1);  // nothing is set
  first_in_threads = [] { came_first = true; };
  Thread{look}.join();
  Thread{[&](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
    look();
  }};
  std::vector<Thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(look);
  threads.clear();
  came_first = true;  // of this thread, which works, too
  InParallel(
      100, [&](size_t) { look(); }, /*items_per_thread=*/1);
  came_first = false;
  first_in_threads = nullptr;
  EXPECT_EQ(without, 1);
}

}  // namespace
}  // namespace dtrain::data
