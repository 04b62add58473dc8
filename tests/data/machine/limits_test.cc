#include "data/machine/limits.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(CgroupCores, TheLeastQuotaOfAGroupAndItsParentsRoundedUp) {
  const TemporaryFolder folder;
  const std::filesystem::path mount = folder.path();
  EXPECT_EQ(CgroupCores("0::/a/b\n", mount), 0);
  Write(mount / "a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", mount), 0);
  Write(mount / "a/cpu.max", "250000 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", mount), 3);
  Write(mount / "cpu.max", "150000 100000\n");
  EXPECT_EQ(CgroupCores("0::/a/b\n", mount), 2);
  EXPECT_EQ(CgroupCores("0::/not/here\n", mount), 2);  // in a container, the root is its own group
  EXPECT_EQ(CgroupCores("nonsense\n\n", mount), 0);
}

TEST(CgroupCores, Version1) {
  const TemporaryFolder folder;
  const std::filesystem::path mount = folder.path();
  Write(mount / "cpu/job/cpu.cfs_quota_us", "400000\n");
  Write(mount / "cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCores("3:memory:/job\n4:cpu,cpuacct:/job\n", mount), 4);
  EXPECT_EQ(CgroupCores("3:memory:/job\n", mount), 0);
  Write(mount / "cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupCores("4:cpu,cpuacct:/job\n", mount), 0);
}

TEST(AvailableCores, AtLeastOne) { EXPECT_GE(AvailableCores(), 1); }

}  // namespace
}  // namespace dtrain::data
