#include "data/pipeline/quarantine.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/error.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

TEST(Quarantine, BudgetIsTheFractionRoundedUp) {
  struct Case {
    int64_t size;
    double fraction;
    bool strict;
    int64_t budget;
  };
  for (const Case& c :
       {Case{10000, 1e-4, false, 1}, Case{10001, 1e-4, false, 2}, Case{50, 1e-4, false, 1}, Case{50, 0, false, 0},
        Case{50, 0.5, true, 0}, Case{3, 1, false, 3}, Case{1000, 0.1, false, 100}}) {
    EXPECT_EQ(Quarantine(c.size, {.max_bad_records = c.fraction, .strict = c.strict}).budget(), c.budget)
        << c.size << " × " << c.fraction;
  }
}

TEST(Quarantine, WithoutAFractionASmallSetMayHaveAFew) {
  for (const auto& [size, budget] : {std::pair(3, 1), {21, 2}, {60, 3}, {200, 10}, {5000, 10}, {1'000'000, 100}}) {
    EXPECT_EQ(Quarantine(size, {}).budget(), budget) << size;
    EXPECT_EQ(Quarantine(size, {.strict = true}).budget(), 0);
  }
}

TEST(Quarantine, NotesEachRecordOnce) {
  const TemporaryFolder folder;
  std::vector<int64_t> heard;
  Quarantine quarantine(100, {.split = "val",
                              .max_bad_records = 0.02,
                              .path = folder.path("bad.jsonl"),
                              .on_bad_record = [&](const BadRecord& record) { heard.push_back(record.index); }});
  quarantine.Add(7, {"a.jpg"}, "truncated");
  quarantine.Add(7, {"a.jpg"}, "truncated");
  quarantine.Add(9, {"b\xFF.tar", 1024}, "not an \"image\"");
  EXPECT_EQ(quarantine.count(), 2);
  EXPECT_EQ(heard, (std::vector<int64_t>{7, 9}));
  std::ifstream file(folder.path("bad.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(
      nlohmann::json::parse(line),
      (nlohmann::json{{"split", "val"}, {"index", 7}, {"file", "a.jpg"}, {"offset", 0}, {"reason", "truncated"}}));
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(nlohmann::json::parse(line)["offset"], 1024);
  EXPECT_EQ(nlohmann::json::parse(line)["reason"], "not an \"image\"");
  EXPECT_FALSE(std::getline(file, line));
}

TEST(Quarantine, ALineOfAnEarlierAttemptIsNotWrittenAgainButCounted) {
  const TemporaryFolder folder;
  const std::string path = folder.path("bad.jsonl");
  for (int attempt = 0; attempt < 2; ++attempt) {
    Quarantine quarantine(100, {.max_bad_records = 0.02, .path = path});
    quarantine.Add(7, {"a.jpg"}, "truncated");
    EXPECT_EQ(quarantine.count(), 1);
  }
  Quarantine(100, {.path = path}).Add(7, {"a.jpg"}, "gone");
  std::ifstream file(path);
  std::vector<std::string> reasons;
  for (std::string line; std::getline(file, line);) reasons.push_back(nlohmann::json::parse(line)["reason"]);
  EXPECT_EQ(reasons, (std::vector<std::string>{"truncated", "gone"}));
}

ExitCode CodeOfAdding(Quarantine& quarantine) {
  try {
    quarantine.Add(1, {"a.jpg"}, "truncated");
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kDone;
}

TEST(Quarantine, AFullDiskLeavesNoPartOfALineAndPartsOfOthersEnd) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("list", R"({"split": "train", "ind)");
  const auto size = std::filesystem::file_size(path);
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);  // as both executables do
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit small{size + 10, usual.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Quarantine full(10, {.max_bad_records = 1, .path = path});
  const ExitCode code = CodeOfAdding(full);
  setrlimit(RLIMIT_FSIZE, &usual);
  EXPECT_EQ(code, ExitCode::kStorage);
  EXPECT_EQ(std::filesystem::file_size(path), size);
  Quarantine quarantine(10, {.max_bad_records = 1, .path = path});
  EXPECT_EQ(CodeOfAdding(quarantine), ExitCode::kDone);
  EXPECT_EQ(ReadBadRecords(path).size(), 1U);
}

TEST(Quarantine, OverBudgetNamesTheFileAndTheFlag) {
  Quarantine quarantine(10, {.max_bad_records = 0.1});
  quarantine.Add(1, {"a.jpg"}, "truncated");
  EXPECT_THAT(MessageAndHint([&] {
                quarantine.Add(2, {"b.tar", 512}, "empty");
              }),
              testing::AllOf(HasSubstr("b.tar at byte 512: empty | "), HasSubstr("--max_bad_records")));
}

TEST(ReadBadRecords, TakesTheLinesThatItKnows) {
  const TemporaryFolder folder;
  const std::string list =
      folder.Write("list", JsonLine({"val", 3, {"a/b.jpg"}, "cut"}) + "\n{\"index\": -1}\nwords\n[1]\n");
  const std::vector<BadRecord> records = ReadBadRecords(list);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(JsonLine(records[0]), JsonLine({"val", 3, {"a/b.jpg"}, "cut"}));
  EXPECT_TRUE(ReadBadRecords(folder.path("none")).empty());
  EXPECT_TRUE(LiesIn(folder.path("."), list));
  EXPECT_FALSE(LiesIn(folder.path("."), "/list"));
}

// Holds for reading earlier lines and for appending new ones.
TEST(Quarantine, FollowsNoLinkAndWaitsForNoPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder.path("endless"));
  std::filesystem::create_symlink(folder.Write("victim", "precious\n"), folder.path("link"));
  for (const char* name : {"pipe", "endless", "link"}) {
    Quarantine quarantine(10, {.max_bad_records = 1, .path = folder.path(name)});
    EXPECT_EQ(CodeOfAdding(quarantine), ExitCode::kStorage) << name;
  }
  EXPECT_EQ(std::filesystem::file_size(folder.path("victim")), 9U);
}

}  // namespace
}  // namespace dtrain::data
