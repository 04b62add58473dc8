// One table per launcher, and the traps between them: half-set, contradicting and leaked variables.
#include "trainer/launch/launch.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/message_of.h"
#include "tests/trainer/launch/launches.h"
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"

namespace dtrain::launch {
namespace {

using testing::HasSubstr;

const std::string kTorchrun =
    "RANK=5 LOCAL_RANK=1 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 MASTER_ADDR=node0 "
    "MASTER_PORT=29500 TORCHELASTIC_RESTART_COUNT=3 TORCHELASTIC_USE_AGENT_STORE=True";

config::RanksConfig Ranks(std::optional<int64_t> rank, std::optional<int64_t> world_size,
                          std::optional<int64_t> local_rank = {}, const std::string& addr = "",
                          std::optional<int64_t> port = {}, const std::string& nproc = "") {
  config::RanksConfig ranks;
  ranks.rank = rank;
  ranks.world_size = world_size;
  ranks.local_rank = local_rank;
  ranks.master_addr = addr;
  ranks.master_port = port;
  ranks.nproc_per_node = nproc;
  return ranks;
}

TEST(Launch, ThisMachine) {
  EXPECT_EQ(TextOf({}, {}), "single 0/1 0/1 0/1 127.0.0.1:0 0");
  EXPECT_EQ(TextOf({}, {}, 8), "single 0/1 0/1 0/1 127.0.0.1:0 0");
  config::RanksConfig restarting;
  restarting.max_restarts = 1;
  EXPECT_EQ(TextOf(restarting, {}), "single 0/1 0/1 0/1 127.0.0.1:0 1");  // restarts need a parent
  EXPECT_EQ(TextOf(Nproc("1"), {}, 8), "single 0/1 0/1 0/1 127.0.0.1:0 0");
  EXPECT_EQ(TextOf(Nproc("2"), {}), "single 0/2 0/2 0/1 127.0.0.1:0 2");
  EXPECT_EQ(TextOf(Nproc("auto"), {}, 8), "single 0/8 0/8 0/1 127.0.0.1:0 8");
  EXPECT_EQ(TextOf(Nproc("auto"), {}), "single 0/1 0/1 0/1 127.0.0.1:0 0");
  EXPECT_EQ(TextOf(Ranks({}, {}, {}, "10.0.0.1", 1234, "2"), {}), "single 0/2 0/2 0/1 10.0.0.1:1234 2");
  for (const char* bad : {"0", "-1", "two", "2x", " 2", "1025"}) {
    EXPECT_THAT(TextOf(Nproc(bad), {}), HasSubstr("expected auto, or a whole number")) << bad;
  }
}

TEST(Launch, ExplicitFlags) {
  const std::vector<LaunchCase> cases = {{Ranks(0, 1), "", "flags 0/1 0/1 0/1 127.0.0.1:0 0"},
                                         {Ranks(3, 4, {}, "h", 1), "", "flags 3/4 3/4 0/1 h:1 0"},
                                         {Ranks(3, 4, {}, "h", 1), "", "flags 3/4 1/2 1/2 h:1 0", 2},
                                         {Ranks(3, 4, 1, "h", 1, "2"), "", "flags 3/4 1/2 1/2 h:1 0"},
                                         {Ranks(3, 4, {}, "h", 1, "auto"), "", "flags 3/4 3/4 0/1 h:1 0", 8},
                                         {Ranks(4, 5, {}, "h", 1, "2"), "", "flags 4/5 0/2 2/3 h:1 0"}};
  ExpectLaunches("", cases);
  ExpectLaunches(kTorchrun, cases);  // the flags are more specific
  EXPECT_FALSE(Detect(Ranks(0, 1), kTorchrun).agent_store);
}

TEST(Launch, HalfSetFlags) {
  ExpectRefused("", {{Ranks(1, {}), "", "--rank=1 given, --world_size, --master_addr, --master_port missing"},
                     {Ranks({}, 1), "", "--world_size=1 given, --rank missing"},
                     {Ranks({}, {}, 2), "", "--local_rank=2 given, --rank, --world_size"},
                     {Ranks(0, 2), "", "--master_addr, --master_port missing"},
                     {Ranks(0, 2, {}, "h"), "", "--master_addr=h given, --master_port missing"},
                     {Ranks(2, 2, {}, "h", 1), "", "--rank (2) is not from 0 to --world_size - 1 (1)"},
                     {Ranks(-1, 2, {}, "h", 1), "", "--rank (-1)"},
                     {Ranks(0, 0), "", "--world_size must be from 1"},
                     {Ranks(0, int64_t{1} << 40, {}, "h", 1), "", "--world_size must be from 1"},
                     {Ranks(0, 4, 2, "h", 1, "2"), "", "--local_rank (2) is not from 0 to --nproc_per_node"},
                     {Ranks(0, 4, 4, "h", 1), "", "--local_rank (4) is not from 0 to --world_size"}});
}

TEST(Launch, Torchrun) {
  ExpectLaunches(
      kTorchrun,
      {
          {{}, "", "torchrun 5/8 1/4 1/2 node0:29500 0"},
          {{}, "GROUP_RANK=", "torchrun 5/8 1/4 1/2 node0:29500 0"},
          {{}, "LOCAL_WORLD_SIZE=", "torchrun 5/8 1/8 1/2 node0:29500 0"},
          {{}, "LOCAL_RANK=0", "torchrun 5/8 0/4 1/2 node0:29500 0"},  // --virtual-local-rank
          {{}, "WORLD_SIZE=6", "torchrun 5/6 1/4 1/2 node0:29500 0"},  // uneven: GROUP_WORLD_SIZE counts the machines
          {{}, "RANK=2 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", "torchrun 2/3 0/1 1/2 node0:29500 0"},
          {{}, "WORLD_SIZE=9 GROUP_WORLD_SIZE=", "torchrun 5/9 1/4 1/3 node0:29500 0"},
          // Variables leaked from the job in which torchrun runs.
          {{}, "PET_NNODES=1:4 PET_NPROC_PER_NODE=4 AWS_BATCH_JOB_NUM_NODES=3", "torchrun 5/8 1/4 1/2 node0:29500 0"},
          {{}, "SLURM_PROCID=7 SLURM_NTASKS=99 SLURM_STEP_ID=0 SLURM_LOCALID=3", "torchrun 5/8 1/4 1/2 node0:29500 0"},
          {{}, "OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=99", "torchrun 5/8 1/4 1/2 node0:29500 0"},
      });
  const Launch launch = Detect({}, kTorchrun, 8);
  EXPECT_EQ(launch.restart_count, 3);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_FALSE(Detect({}, kTorchrun + " TORCHELASTIC_USE_AGENT_STORE=False", 8).agent_store);
  EXPECT_FALSE(Detect({}, kTorchrun + " TORCHELASTIC_USE_AGENT_STORE=", 8).agent_store);
}

TEST(Launch, HalfSetTorchrun) {
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    const std::string text = TextOf({}, kTorchrun + " " + name + "=");
    EXPECT_THAT(text, HasSubstr(std::string(name) + " missing"));
    for (const std::string& variable : Words(kTorchrun)) {
      if (!variable.starts_with(std::string(name) + "=")) {
        EXPECT_THAT(text, HasSubstr(variable));
      }
    }
  }
  EXPECT_THAT(TextOf({}, "WORLD_SIZE=4"), HasSubstr("WORLD_SIZE=4 set, RANK, LOCAL_RANK, MASTER_ADDR"));
  // An address alone says nothing about ranks: many job scripts export one.
  EXPECT_EQ(TextOf({}, "MASTER_ADDR=h MASTER_PORT=1"), "single 0/1 0/1 0/1 127.0.0.1:0 0");
  EXPECT_STREQ(Detect({}, "RANK= LOCAL_RANK= WORLD_SIZE=").launcher.name, "single");
}

TEST(Launch, BadTorchrunValues) {
  ExpectRefused(kTorchrun,
                {{{}, "RANK=zero", "RANK=zero: expected a whole number"},
                 {{}, "RANK=-1", "RANK=-1: expected a whole number"},
                 {{}, "RANK=5x", "RANK=5x: expected a whole number"},
                 {{}, "RANK=8", "RANK (8) is not from 0 to WORLD_SIZE - 1 (7)"},
                 {{}, "WORLD_SIZE=0", "WORLD_SIZE=0: expected"},
                 {{}, "WORLD_SIZE=99999999999", "WORLD_SIZE=99999999999: expected"},
                 {{}, "LOCAL_RANK=4", "LOCAL_RANK (4) is not from 0 to LOCAL_WORLD_SIZE - 1 (3)"},
                 {{}, "LOCAL_WORLD_SIZE=9", "LOCAL_WORLD_SIZE"},
                 {{}, "MASTER_PORT=0", "MASTER_PORT=0: expected a whole number, 1 to 65535"},
                 {{}, "MASTER_PORT=65536", "MASTER_PORT=65536"},
                 {{}, "GROUP_RANK=x", "GROUP_RANK=x"},
                 {{}, "GROUP_RANK=2 GROUP_WORLD_SIZE=2", "GROUP_RANK (2) is not from 0 to GROUP_WORLD_SIZE - 1 (1)"},
                 {{}, "TORCHELASTIC_RESTART_COUNT=x", "TORCHELASTIC_RESTART_COUNT=x"}});
  EXPECT_THAT(TextOf({}, kTorchrun + " RANK=8"), HasSubstr("MASTER_ADDR=node0"));  // quotes all that was seen
}

TEST(Launch, FlagsBesideTorchrun) {
  EXPECT_STREQ(Detect(Nproc("4"), kTorchrun).launcher.name, "torchrun");
  EXPECT_STREQ(Detect(Nproc("auto"), kTorchrun, 8).launcher.name, "torchrun");
  EXPECT_THAT(TextOf(Nproc("2"), kTorchrun),
              HasSubstr("--nproc_per_node=2 contradicts the 4 local ranks that torchrun has started already"));
  EXPECT_STREQ(Detect(Ranks({}, {}, {}, "node0", 29500), kTorchrun).launcher.name, "torchrun");
  EXPECT_THAT(TextOf(Ranks({}, {}, {}, "node1"), kTorchrun), HasSubstr("contradict torchrun's variables"));
  EXPECT_THAT(TextOf(Ranks({}, {}, {}, "", 1), kTorchrun), HasSubstr("contradict torchrun's variables"));
}

using testing::ElementsAre;

TEST(NodeList, FirstName) {
  const std::map<std::string, std::string> cases = {{"gpu[01-03,07],login2", "gpu01"},
                                                    {"n[9-11]", "n9"},
                                                    {"r[1-2]n[3,5]-ib,x", "r1n3-ib"},
                                                    {"x,r[1-2]", "x"},
                                                    {"one-host.example", "one-host.example"}};
  for (const auto& [list, first] : cases) EXPECT_EQ(FirstNode(list), first);
}

TEST(NodeList, ManyBracketsNeedNoStack) {
  std::string list = "n";
  for (int i = 0; i < 40'000; ++i) list += "[1]";  // about as long as an environment variable can be
  EXPECT_EQ(FirstNode(list), "n" + std::string(40'000, '1'));
}

// 2130706433 is 127.0.0.1 to every resolver, as a name in /etc/hosts may be.
TEST(Launch, OtherMachinesCannotComeToANameThatIsLoopbackHere) {
  const auto taken = [](const std::string& name, int nnodes, const std::string& own_address) {
    Launch launch;
    launch.master_addr = name;
    launch.nnodes = nnodes;
    const std::string said = LeaveLoopback({.address = own_address}, &launch);
    EXPECT_EQ(said.empty(), launch.master_addr == name) << said;
    return launch.master_addr;
  };
  EXPECT_EQ(taken("2130706433", 2, "10.0.0.5"), "10.0.0.5");
  EXPECT_EQ(taken("2130706433", 1, "10.0.0.5"), "2130706433");
  EXPECT_EQ(taken("2130706433", 2, "127.0.0.1"), "2130706433");  // there is no network
  for (const char* kept : {"127.0.0.1", "localhost", "10.0.0.9", ""}) EXPECT_EQ(taken(kept, 2, "10.0.0.5"), kept);
}

TEST(NodeList, WhatIsNone) {
  for (const char* bad : {"", ",", "a[", "a[1", "a]1", "a[1]]", "a[[1]]", "a[]", "a[x]", "a[-1]", "a[99999999999]"}) {
    EXPECT_ERROR("the node list '" + std::string(bad) + "' cannot be read", FirstNode(bad));
  }
}

TEST(NodeList, Counts) {
  EXPECT_THAT(ExpandCounts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(ExpandCounts("4"), ElementsAre(4));
  for (const char* bad : {"", "x", "2(x)", "2(x0)", "2(x3", "0", "2(x99999999)"}) {
    EXPECT_THROW(ExpandCounts(bad), UsageError) << bad;
  }
}

constexpr std::time_t kNow = 1'800'000'000;

double Seconds(std::optional<double> max_hours, const std::string& end_time) {
  const Environment environment = {{"SLURM_JOB_END_TIME", end_time}};
  const auto limit = FindTimeLimit(max_hours, environment, kNow);
  return limit ? limit->seconds : -1;
}

TEST(TimeLimit, OfTheFlag) {
  EXPECT_EQ(Seconds(0.5, ""), 1800);
  EXPECT_EQ(Seconds(0.5, "1800000600"), 1800);
  EXPECT_EQ(Seconds(0, "1800000600"), -1);
  EXPECT_FALSE(FindTimeLimit({}, {}, kNow));
}

TEST(TimeLimit, OfSlurm) {
  EXPECT_EQ(Seconds({}, "1800003600"), 3600 - 180);
  EXPECT_EQ(Seconds({}, "1800000100"), 50);
  for (const char* none : {"1800000000", "1700000000", "0", "-1", "", "soon", "1800003600s"}) {
    EXPECT_EQ(Seconds({}, none), -1) << none;
  }
}

}  // namespace

}  // namespace dtrain::launch
