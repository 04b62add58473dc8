#include "data/storage.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "data/error.h"
#include "tests/fault_record.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

TEST(RandomAccessFile, ReadsAtPositions) {
  const TemporaryFolder folder;
  const RandomAccessFile file(folder.Write("f", "0123456789"));
  EXPECT_EQ(file.size(), 10U);
  std::string text(4, ' ');
  file.Read(6, 4, text.data());
  EXPECT_EQ(text, "6789");
  EXPECT_THROW(file.Read(7, 4, text.data()), DataError);
}

TEST(RandomAccessFile, AFileThatShrinksIsAnErrorNotASignal) {
  const TemporaryFolder folder;
  const RandomAccessFile file(folder.Write("f", std::string(10000, 'x')));
  std::filesystem::resize_file(folder.path("f"), 100);
  std::string text(10000, ' ');
  EXPECT_THROW(file.Read(0, 10000, text.data()), DataError);
  RecordFault(20, "a data file is shortened while it is read", "an error, no signal", 1);
}

TEST(RandomAccessFile, RefusesWhatIsNotAFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(RandomAccessFile(folder.path("missing")), DataError);
  EXPECT_THROW(RandomAccessFile(folder.path()), DataError);
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_THROW(RandomAccessFile(folder.path("pipe")), DataError);  // without waiting for a writer
}

TEST(Storage, TellsWhatIsThereWithoutOpeningIt) {
  const TemporaryFolder folder;
  folder.Write("a/file", "12345");
  ASSERT_EQ(mkfifo(folder.path("a/pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder.path("a/folder"));
  std::filesystem::create_symlink("file", folder.path("a/link"));
  std::filesystem::create_symlink("folder", folder.path("a/link to folder"));
  std::filesystem::create_symlink("nowhere", folder.path("a/lost link"));
  std::map<std::string, PathKind> found;
  List(folder.path("a"), [&](const std::string& name, PathKind kind) { return found.emplace(name, kind).second; });
  const std::map<std::string, PathKind> wanted = {
      {"file", PathKind::kFile},       {"folder", PathKind::kFolder},
      {"link", PathKind::kFile},       {"link to folder", PathKind::kFolder},
      {"lost link", PathKind::kOther}, {"pipe", PathKind::kOther}};
  EXPECT_EQ(found, wanted);
  for (const auto& [name, kind] : wanted) EXPECT_EQ(Stat(folder.path("a/" + name)).kind, kind) << name;
  EXPECT_EQ(Stat(folder.path("a/link")).bytes, 5U);
  EXPECT_EQ(Stat(folder.path("a/folder")).identity, Stat(folder.path("a/link to folder")).identity);
  EXPECT_EQ(Stat(folder.path("a/lost link")).problem, "No such file or directory");
  EXPECT_FALSE(Exists(folder.path("a/nothing")));
  EXPECT_TRUE(Exists(folder.path("a/lost link")));
  int visits = 0;
  List(folder.path("a"), [&](const std::string&, PathKind) { return ++visits < 2; });
  EXPECT_EQ(visits, 2);
  EXPECT_THAT(MessageAndHint([&] { List(folder.path("b"), [](const auto&, auto) { return true; }); }),
              testing::HasSubstr("cannot list " + folder.path("b") + ": No such file or directory"));
}

}  // namespace
}  // namespace dtrain::data
