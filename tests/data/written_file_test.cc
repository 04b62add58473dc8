#include "data/written_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

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

}  // namespace
}  // namespace dtrain::data
