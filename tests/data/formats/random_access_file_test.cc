#include "data/formats/random_access_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "data/error.h"
#include "tests/fault_record.h"
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

}  // namespace
}  // namespace dtrain::data
