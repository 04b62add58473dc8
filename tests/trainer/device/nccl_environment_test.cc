#include "trainer/device/nccl_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace dtrain::device {
namespace {

using testing::Contains;
using testing::Pair;

TEST(NcclEnvironment, ALateCollectiveEndsTheRankAndLeavesARecord) {
  const EnvironmentSettings settings = NcclEnvironment("/runs/a/logs", 600, false);
  EXPECT_THAT(settings, Contains(Pair("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")));
  EXPECT_THAT(settings, Contains(Pair("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "630")));
  EXPECT_THAT(settings, Contains(Pair("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")));
  EXPECT_THAT(settings, Contains(Pair("TORCH_FR_DUMP_TEMP_FILE", "/runs/a/logs/nccl-flight-recorder-")));
  EXPECT_THAT(NcclEnvironment("", 600, false), Contains(Pair("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")));
  EXPECT_THAT(NcclEnvironment("", 1e300, false), Contains(Pair("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "1000030")));
}

TEST(NcclEnvironment, RanksOfOneMachineNeedNoNetworkButLoopback) {
  EXPECT_THAT(NcclEnvironment("", 600, true), Contains(Pair("NCCL_SOCKET_IFNAME", "lo")));
  EXPECT_THAT(NcclEnvironment("", 600, false), testing::Not(Contains(testing::Key("NCCL_SOCKET_IFNAME"))));
}

TEST(NcclEnvironment, WhatTheUserHasSetStays) {
  setenv("DTRAIN_TEST_KEPT", "theirs", 1);
  unsetenv("DTRAIN_TEST_SET");
  Apply({{"DTRAIN_TEST_KEPT", "ours"}, {"DTRAIN_TEST_SET", "ours"}});
  EXPECT_STREQ(getenv("DTRAIN_TEST_KEPT"), "theirs");
  EXPECT_STREQ(getenv("DTRAIN_TEST_SET"), "ours");
}

}  // namespace
}  // namespace dtrain::device
