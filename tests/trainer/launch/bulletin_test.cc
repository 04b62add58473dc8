#include "trainer/launch/bulletin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/temporary_folder.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"

namespace dtrain::launch {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

bool NoStop() { return false; }

class BulletinTest : public testing::Test {
 protected:
  Launch Rank(int rank) const {
    Launch launch;
    launch.rank = rank;
    launch.world_size = 2;
    launch.nnodes = 2;
    launch.master_addr.clear();
    launch.bulletin_key = "abc";
    return launch;
  }
  fs::path path() const { return BulletinPath((folder_ / "run").string(), "abc"); }

  const TemporaryFolder folder_;
};

TEST_F(BulletinTest, RanksMeetAndNothingIsLeft) {
  Machine machine;
  machine.address = "127.0.0.1";
  Launch first = Rank(0), second = Rank(1);
  int first_fd = -1, second_fd = -1;
  std::thread other([&] {
    Bulletin bulletin(path());
    MeetThrough(bulletin, machine, 30, NoStop, &second, &second_fd);
  });
  {
    Bulletin bulletin(path());
    MeetThrough(bulletin, machine, 30, NoStop, &first, &first_fd);
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
  close(first_fd);
}

TEST_F(BulletinTest, TheFirstRankReplacesWhatAnEarlierAttemptLeft) {
  fs::create_directories(path().parent_path());
  std::ofstream(path()) << "dtrain rank 0 at 10.9.9.9 1\n";
  Bulletin bulletin(path());
  bulletin.Post("10.0.0.1", 77);
  std::string address;
  int port = 0;
  Bulletin(path()).Await(0, NoStop, &address, &port);
  EXPECT_EQ(address, "10.0.0.1");
  EXPECT_EQ(port, 77);
}

TEST_F(BulletinTest, WhatIsNoBulletinIsNotRead) {
  fs::create_directories(path().parent_path());
  for (const char* text : {"", "garbage\n", "dtrain rank 0 at ", "dtrain rank 0 at h", "dtrain rank 0 at h 0\n",
                           "dtrain rank 0 at h 70000\n"}) {
    std::ofstream(path()) << text;
    std::string address;
    int port = 0;
    EXPECT_THROW(Bulletin(path()).Await(0, NoStop, &address, &port), PeerLostError) << text;
  }
}

TEST_F(BulletinTest, WaitingEndsWhenAStopIsAskedFor) {
  std::string address;
  int port = 0;
  EXPECT_THROW(Bulletin(path()).Await(
                   60, [] { return true; }, &address, &port),
               Preempted);
}

TEST_F(BulletinTest, AFileThatDoesNotComeIsNamed) {
  std::string address;
  int port = 0;
  try {
    Bulletin(path()).Await(0.05, NoStop, &address, &port);
    FAIL();
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path().string()));
    EXPECT_THAT(error.hint(), HasSubstr("--master_addr"));
  }
}

TEST_F(BulletinTest, AFolderThatCannotBeWrittenIsNamed) {
  std::ofstream(folder_ / "run") << "a file\n";
  EXPECT_THROW(Bulletin(path()).Post("h", 1), StorageError);
}

TEST(KeyOfRun, DependsOnEachValue) {
  const std::vector<std::string> names = {"A", "B"};
  const std::string key = KeyOfRun({{"A", "1"}, {"B", "2"}, {"C", "3"}}, names);
  EXPECT_EQ(KeyOfRun({{"A", "1"}, {"B", "2"}, {"C", "4"}}, names), key);
  EXPECT_NE(KeyOfRun({{"A", "1"}, {"B", "3"}}, names), key);
  EXPECT_NE(KeyOfRun({{"A", "12"}, {"B", ""}}, names), key);
}

TEST(LocalAddress, IsOneThatCanBeListenedOn) {
  int port = 0;
  const int fd = ListenAnywhereOn(OwnAddress(), &port);
  EXPECT_GE(fd, 0);
  EXPECT_GT(port, 0);
  close(fd);
  EXPECT_THROW(ListenAnywhereOn("192.0.2.77", &port), PeerLostError);  // of no machine
  EXPECT_THROW(ListenAnywhereOn("no address", &port), PeerLostError);
}

}  // namespace
}  // namespace dtrain::launch
