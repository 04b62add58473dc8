// The bytes of the files. tests/integration/test_follow_a_run.py reads them with TensorBoard itself.
#include "trainer/report/tensorboard_log.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "data/formats/tfrecord.h"
#include "tests/temporary_folder.h"

namespace dtrain::report {
namespace {

std::vector<std::filesystem::path> FilesIn(const TemporaryFolder& run) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(run.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void TrainTo(TensorboardLog& log, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) log.Train({.step = step, .loss = 1});
}

TEST(EventsTest, AreCutByStepAndWhereOneIsTorn) {
  const auto at = [](int64_t step) { return ScalarsEvent({.seconds = 2, .step = step}, {{"a", 1}}); };
  const std::string file = FileVersionEvent(1) + at(1) + at(200) + at(3);
  EXPECT_EQ(EventsUntil(file, 300), file);
  EXPECT_EQ(EventsUntil(file, 199), FileVersionEvent(1) + at(1) + at(3));
  EXPECT_EQ(EventsUntil(file + at(4).substr(0, 20), 300), file);
  EXPECT_EQ(EventsUntil("", 1), "");
}

TEST(TensorboardLogTest, ARunThatBeginsAgainLeavesNothingOfBefore) {
  TemporaryFolder run;
  {
    TensorboardLog log(run.path(), {});
    log.Resume(0, 0);
    log.FirstBatch({.width = 1, .height = 1, .png = "x"});
    TrainTo(log, 1, 2);
  }
  TensorboardLog log(run.path(), {});
  log.Resume(0, 0);
  log.Finish({});  // adds no event, because this start has done nothing
  const auto files = FilesIn(run);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(ReadAll(files[0]).size(), FileVersionEvent(1).size());
}

}  // namespace
}  // namespace dtrain::report
