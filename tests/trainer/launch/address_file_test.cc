#include "trainer/launch/address_file.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/run_token.h"

namespace dtrain::launch {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

bool NoStop() { return false; }

class AddressFileTest : public testing::Test {
 protected:
  Launch Rank(int rank) const {
    Launch launch;
    launch.rank = rank;
    launch.world_size = 2;
    launch.nnodes = 2;
    launch.master_addr.clear();
    launch.address_key = "abc";
    return launch;
  }
  fs::path path() const { return AddressFilePath((folder_ / "run").string(), "abc"); }

  const TemporaryFolder folder_;
};

TEST_F(AddressFileTest, RanksMeetAndNothingIsLeft) {
  Machine machine;
  machine.address = "127.0.0.1";
  Launch first = Rank(0), second = Rank(1);
  int first_fd = -1, second_fd = -1;
  std::thread other([&] {
    AddressFile address_file(path());
    MeetThrough(address_file, machine, 30, NoStop, &second, &second_fd);
  });
  {
    AddressFile address_file(path());
    MeetThrough(address_file, machine, 30, NoStop, &first, &first_fd);
    other.join();
    EXPECT_TRUE(fs::exists(path()));
  }
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_TRUE(fs::is_empty(folder_ / "run"));
  EXPECT_GE(first_fd, 0);
  EXPECT_EQ(second_fd, -1);
  EXPECT_EQ(second.master_addr, "127.0.0.1");
  EXPECT_GT(second.master_port, 0);
  EXPECT_EQ(second.master_port, first.master_port);
  EXPECT_EQ(second.token, first.token);
  EXPECT_EQ(first.token.size(), 32U);
  close(first_fd);
}

TEST_F(AddressFileTest, TheFirstRankReplacesWhatAnEarlierAttemptLeftAndHidesTheToken) {
  fs::create_directories(path().parent_path());
  std::ofstream(path()) << "dtrain rank 0 at 10.9.9.9 1\n";
  const mode_t previous = umask(0);
  AddressFile address_file(path());
  address_file.Post({"10.0.0.1", 77, "secret"});
  umask(previous);
  const Posting read = AddressFile(path()).Await(0, NoStop);
  EXPECT_EQ(read.address, "10.0.0.1");
  EXPECT_EQ(read.port, 77);
  EXPECT_EQ(read.token, "secret");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(AddressFileTest, ATokenThatWasGivenIsNotPosted) {
  Launch first = Rank(0);
  first.token = "given";
  Machine machine;
  machine.address = "127.0.0.1";
  int fd = -1;
  AddressFile address_file(path());
  MeetThrough(address_file, machine, 30, NoStop, &first, &fd);
  EXPECT_EQ(first.token, "given");
  EXPECT_EQ(AddressFile(path()).Await(0, NoStop).token, "");
  close(fd);
}

// Whoever may write into the directory is trusted, but a link that was left by accident must still not be followed.
TEST_F(AddressFileTest, FollowsNoLinks) {
  fs::create_directories(path().parent_path());
  std::ofstream(folder_ / "victim") << "dtrain rank 0 at h 1 t\n";
  fs::create_symlink(folder_ / "victim", path());
  fs::create_symlink(folder_ / "victim", path().string() + "." + std::to_string(getpid()));
  EXPECT_THROW(AddressFile(path()).Await(0, NoStop), PeerLostError);
  AddressFile address_file(path());
  address_file.Post({"10.0.0.1", 77, "secret"});
  std::ifstream victim(folder_ / "victim");
  std::string text;
  std::getline(victim, text);
  EXPECT_EQ(text, "dtrain rank 0 at h 1 t");
}

TEST_F(AddressFileTest, WhatIsNoAddressFileIsNotRead) {
  fs::create_directories(path().parent_path());
  for (const char* text : {"", "garbage\n", "dtrain rank 0 at ", "dtrain rank 0 at h", "dtrain rank 0 at h 0\n",
                           "dtrain rank 0 at h 70000 t\n", "dtrain rank 0 at h 1\n", "dtrain rank 0 at h 1 t"}) {
    std::ofstream(path()) << text;
    EXPECT_THROW(AddressFile(path()).Await(0, NoStop), PeerLostError) << text;
  }
}

TEST_F(AddressFileTest, WaitsNotForEverAndNamesWhatIsWrong) {
  EXPECT_THROW(AddressFile(path()).Await(60, [] { return true; }), Preempted);
  const auto wait = [this] { AddressFile(path()).Await(0.05, NoStop); };
  EXPECT_THAT(MessageOf(wait), HasSubstr(path().string()));
  EXPECT_THAT(HintOf(wait), HasSubstr("--master_addr"));
  std::ofstream(folder_ / "run") << "a file\n";
  EXPECT_THROW(AddressFile(path()).Post({"h", 1, "t"}), StorageError);
}

TEST(KeyOfRun, DependsOnEachValue) {
  const std::vector<std::string> names = {"A", "B"};
  const std::string key = KeyOfRun({{"A", "1"}, {"B", "2"}, {"C", "3"}}, names);
  EXPECT_EQ(KeyOfRun({{"A", "1"}, {"B", "2"}, {"C", "4"}}, names), key);
  EXPECT_NE(KeyOfRun({{"A", "1"}, {"B", "3"}}, names), key);
  EXPECT_NE(KeyOfRun({{"A", "12"}, {"B", ""}}, names), key);
}

TEST(LocalAddress, IsOneThatCanBeListenedOn) {
  const int fd = ListenOn(OwnAddress(), 0);
  EXPECT_GE(fd, 0);
  EXPECT_GT(PortOf(fd), 0);
  close(fd);
  EXPECT_THROW(ListenOn("192.0.2.77", 0), PeerLostError);  // an address that no machine has
  EXPECT_THROW(ListenOn("no address", 0), PeerLostError);
}

TEST(RunToken, IsTheFlagsOrElseTheEnvironments) {
  config::RanksConfig ranks;
  EXPECT_EQ(GivenToken(ranks, {}), "");
  EXPECT_EQ(GivenToken(ranks, {{"DTRAIN_RUN_TOKEN", "secret"}}), "secret");
  ranks.run_token = "flag";
  EXPECT_EQ(GivenToken(ranks, {{"DTRAIN_RUN_TOKEN", "secret"}}), "flag");
  EXPECT_EQ(DetectLaunch({}, {{"DTRAIN_RUN_TOKEN", "secret"}}, {}).token, "secret");
}

TEST(RunToken, RandomOnesAreLongAndDiffer) {
  EXPECT_EQ(RandomToken().size(), 32U);
  EXPECT_NE(RandomToken(), RandomToken());
}

TEST(RunToken, ProofsDependOnTheTokenAndOnEachPart) {
  // Computed with Python's hmac, of the message "2:ab".
  EXPECT_EQ(Proof("Jefe", {"ab"}), "d4c366f44382d10205dd943f94fe06c82be69decf622481ae4f8119355dc5461");
  EXPECT_NE(Proof("a", {"x"}), Proof("b", {"x"}));
  EXPECT_NE(Proof("a", {"ab", "c"}), Proof("a", {"a", "bc"}));
  EXPECT_NE(Proof("a", {"ab"}), Proof("a", {"ab", ""}));
  EXPECT_TRUE(SameProof(Proof("", {}), Proof("", {})));
  EXPECT_FALSE(SameProof(Proof("", {}), ""));
}

}  // namespace
}  // namespace dtrain::launch
