#include "trainer/report/metrics_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.h"
#include "tests/trainer/report/idle_metrics.h"
#include "trainer/errors.h"

namespace dtrain::report {
namespace {

using testing::HasSubstr;

TEST(MetricsFile, IsThereAtOnceAndWithTheLastNumbersAtTheEnd) {
  const TemporaryFolder folder;
  const auto metrics = IdleMetrics();
  {
    const MetricsFile file(folder / "dtrain.prom", metrics, /*interval_seconds=*/3600);
    EXPECT_THAT(ReadAll(folder / "dtrain.prom"), HasSubstr("\ndtrain_step_total 0\n"));
    metrics->Train({.step = 5});
  }
  EXPECT_EQ(ReadAll(folder / "dtrain.prom").substr(0, 100), metrics->Text().substr(0, 100));
  EXPECT_THAT(ReadAll(folder / "dtrain.prom"), HasSubstr("\ndtrain_step_total 5\n"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // nothing half-written
}

TEST(MetricsFile, IsRenewedMeanwhile) {
  const TemporaryFolder folder;
  const auto metrics = IdleMetrics();
  const MetricsFile file(folder / "dtrain.prom", metrics, /*interval_seconds=*/0.01);
  metrics->Train({.step = 5});
  while (ReadAll(folder / "dtrain.prom").find("\ndtrain_step_total 5\n") == std::string::npos)
    std::this_thread::yield();
}

TEST(MetricsFile, AFolderThatIsNotThereIsSaidAtTheStart) {
  EXPECT_THROW(MetricsFile("/no/such/folder/dtrain.prom", IdleMetrics()), StorageError);
}

}  // namespace
}  // namespace dtrain::report
