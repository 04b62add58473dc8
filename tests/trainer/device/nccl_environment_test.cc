#include "trainer/device/nccl_environment.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <stdexcept>

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

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct FlightRecord : testing::Test {
  const fs::path file = fs::temp_directory_path() / ("dtrain-flight-record-" + std::to_string(getpid()));
  ~FlightRecord() override { fs::remove(file); }
};

TEST_F(FlightRecord, IsWritten) {
  WriteFlightRecord(
      file, [] { return std::string("a\0b", 3); }, seconds(20));
  std::ifstream stream(file, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), std::string("a\0b", 3));
}

TEST_F(FlightRecord, IsGivenUpWhereItHangsOrFails) {
  std::promise<void> hanging, over;
  WriteFlightRecord(
      file,
      [&]() -> std::string {
        hanging.get_future().wait();
        over.set_value();
        return "";
      },
      milliseconds(1));
  hanging.set_value();
  over.get_future().wait();  // the thread uses these variables
  WriteFlightRecord(
      file, []() -> std::string { throw std::runtime_error("no record"); }, seconds(20));
  WriteFlightRecord(
      "/no/such/folder/file", [] { return "lost"; }, seconds(20));
}

}  // namespace

}  // namespace dtrain::device
