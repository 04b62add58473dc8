#include "data/written_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

TEST(OpenOrCreate, FollowsNoLinkAndWaitsForNoPipe) {
  const TemporaryFolder folder;
  const std::string victim = folder.Write("victim", "precious");
  std::filesystem::create_symlink(victim, folder / "link");
  std::filesystem::create_hard_link(victim, folder / "hard");
  std::filesystem::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  for (const auto& [name, reason] :
       {std::pair("link", ELOOP), {"hard", EMLINK}, {"victim", EMLINK}, {"folder", EISDIR}, {"pipe", ENXIO}}) {
    EXPECT_EQ(OpenOrCreate(folder.path(name), O_WRONLY | O_APPEND), -1) << name;
    EXPECT_EQ(errno, reason) << name;
  }
  EXPECT_EQ(ReadAll(folder / "victim"), "precious");
}

TEST(PublishFile, SaysWhatToDoAboutTheReasonAndLeavesNothing) {
  const TemporaryFolder folder;
  const auto write = [&] { PublishFile(folder.path("file"), std::string(100, 'x')); };
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit small{.rlim_cur = 16, .rlim_max = usual.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = MessageAndHint(write);
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, testing::AllOf(testing::HasSubstr("cannot write"), testing::HasSubstr("ulimit -f")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write();
  EXPECT_EQ(std::filesystem::file_size(folder.path("file")), 100U);
}

// Two processes that write one file have a descriptor each, as two objects do.
TEST(PartialFile, TheSecondWriterFailsAndTheFirstIsUntouched) {
  const TemporaryFolder folder;
  const std::string path = folder.path("file"), partial = path + ".partial";
  {
    PartialFile first(path);
    first.Append("whole");
    EXPECT_THAT(MessageAndHint([&] { PartialFile second(path); }), testing::HasSubstr("another process is writing it"));
    first.Publish();
    EXPECT_EQ(ReadAll(folder / "file"), "whole");
    PartialFile next(path);  // the name is free again
  }
  EXPECT_FALSE(std::filesystem::exists(partial));
  for (const bool is_link : {false, true}) {  // what a process that is gone has left, or another user has put there
    const std::string left = folder.Write(is_link ? "other" : "file.partial", "left");
    if (is_link) std::filesystem::create_symlink(left, partial);
    PublishFile(path, "new");
    EXPECT_EQ(ReadAll(folder / "file"), "new");
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(partial)));
  }
  EXPECT_EQ(ReadAll(folder / "other"), "left");
  PartialFile removed(path);
  std::filesystem::remove(partial);
  folder.Write("file.partial", "of another one");
  EXPECT_THAT(MessageAndHint([&] { removed.Publish(); }), testing::HasSubstr("cannot write"));
  EXPECT_EQ(ReadAll(folder / "file"), "new");
}

}  // namespace
}  // namespace dtrain::data
