#include "data/machine/limits.h"

#include <gtest/gtest.h>

#include "data/formats/in_parallel.h"
#include "data/machine/thread.h"
#include "tests/temporary_folder.h"

#include <vector>

namespace dtrain::data {
namespace {

TEST(CgroupCores, TheLeastQuotaOfAGroupAndItsParentsRoundedUp) {
  const TemporaryFolder folder;
  EXPECT_EQ(CgroupCores("0::/a/b\n", folder.path()), 0);
  folder.Write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", folder.path()), 0);
  folder.Write("a/cpu.max", "250000 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", folder.path()), 3);
  folder.Write("cpu.max", "150000 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", folder.path()), 2);
  EXPECT_EQ(CgroupCores("0::/not/here\n", folder.path()), 2);  // in a container, the root is its own group
  EXPECT_EQ(CgroupCores("nonsense\n\n", folder.path()), 0);
}

TEST(CgroupCores, Version1) {
  const TemporaryFolder folder;
  folder.Write("cpu/job/cpu.cfs_quota_us", "400000\n");
  folder.Write("cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCores("3:memory:/job\n4:cpu,cpuacct:/job\n", folder.path()), 4);
  EXPECT_EQ(CgroupCores("3:memory:/job\n", folder.path()), 0);
  folder.Write("cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupCores("4:cpu,cpuacct:/job\n", folder.path()), 0);
}

constexpr int64_t kMiB = 1 << 20;

TEST(AvailableMemory, IsTheLeastOfMachineAndGroups) {
  const TemporaryFolder folder;
  const auto left = [&] { return AvailableMemory(folder.path("proc"), folder.path("groups")) / kMiB; };
  EXPECT_EQ(left(), 0);
  folder.Write("proc/meminfo", std::string_view("MemTotal: 9000000 kB\nMemAvailable:    2048000 kB\n"));
  EXPECT_EQ(left(), 2000);
  folder.Write("proc/self/cgroup", std::string_view("0::/pod/container\n"));
  EXPECT_EQ(left(), 2000);
  folder.Write("groups/pod/memory.max", std::string_view("max\n"));
  folder.Write("groups/pod/memory.current", std::string_view("1\n"));
  EXPECT_EQ(left(), 2000);
  folder.Write("groups/pod/container/memory.max", std::to_string(1000 * kMiB));
  folder.Write("groups/pod/container/memory.current", std::to_string(900 * kMiB));
  EXPECT_EQ(left(), 100);
  folder.Write("groups/pod/container/memory.stat",
               "anon 5\ninactive_file " + std::to_string(50 * kMiB) + "\nactive_file " + std::to_string(30 * kMiB));
  EXPECT_EQ(left(), 180);  // file caches count as available
  folder.Write("groups/pod/container/memory.current", std::to_string(2000 * kMiB));
  EXPECT_EQ(left(), 0);
}

TEST(AvailableMemory, Version1) {
  const TemporaryFolder folder;
  folder.Write("proc/meminfo", std::string_view("MemAvailable: 2048000 kB\n"));
  folder.Write("proc/self/cgroup", std::string_view("4:cpu,cpuacct:/job\n5:memory:/job\n"));
  folder.Write("groups/memory/job/memory.limit_in_bytes", std::to_string(500 * kMiB));
  folder.Write("groups/memory/job/memory.usage_in_bytes", std::to_string(200 * kMiB));
  EXPECT_EQ(AvailableMemory(folder.path("proc"), folder.path("groups")), 300 * kMiB);
}

TEST(AvailableMemory, OfThisMachineIsSomething) { EXPECT_GT(AvailableMemory(), kMiB); }

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
