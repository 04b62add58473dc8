#include "trainer/checkpoint/async_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <future>
#include <vector>

#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/snapshots.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

AsyncWriterOptions Quick(std::vector<std::string>* warnings = nullptr) {
  AsyncWriterOptions options;
  options.keep_checkpoints = 2;
  options.retry_pause_seconds = 0;
  if (warnings != nullptr) options.warn = [warnings](const std::string& text) { warnings->push_back(text); };
  return options;
}

TEST(AsyncWriterTest, SavesInOrderPrunesAndKeepsTheWeightsCurrent) {
  TemporaryFolder run;
  AsyncWriter writer(Store(run.path()), Quick());
  for (const int64_t step : {1, 2, 3, 4}) writer.Save(MakeSnapshot(step));
  writer.Wait();
  EXPECT_EQ(writer.current(), std::nullopt);
  EXPECT_THAT(Store(run.path()).Steps(), ElementsAre(3, 4));
  const SafetensorsContent weights = ReadSafetensors(run / "model.safetensors");
  EXPECT_TRUE(at::equal(weights.tensors[0].second, at::full({3}, 4.0)));
  const SafetensorsContent average = ReadSafetensors(run / "model_ema.safetensors");
  EXPECT_TRUE(at::equal(average.tensors[0].second, at::full({3}, 1.0)));
  EXPECT_EQ(average.metadata.at("step"), "4");
  EXPECT_LT(writer.seconds_since_last_success(), 60);
}

// The copies from a GPU are still under way when Save returns.
TEST(AsyncWriterTest, NothingIsWrittenBeforeTheCopiesAreThere) {
  TemporaryFolder run;
  AsyncWriter writer(Store(run.path()), Quick());
  Snapshot snapshot = MakeSnapshot(3);
  const at::Tensor copy = snapshot.model[0].second;
  const at::Tensor final_values = copy.clone();
  copy.zero_();
  std::promise<void> arrive;
  snapshot.wait = [&, arrived = arrive.get_future().share()] {
    arrived.wait();
    at::Tensor(copy).copy_(final_values);
  };
  writer.Save(std::move(snapshot));
  arrive.set_value();
  writer.Wait();
  EXPECT_TRUE(HoldsItsSnapshot(*Store(run.path()).FindNewestValid(nullptr)));
}

TEST(AsyncWriterTest, TheDestructorFinishesThePendingSave) {
  TemporaryFolder run;
  { AsyncWriter(Store(run.path()), Quick()).Save(MakeSnapshot(7)); }
  EXPECT_EQ(Store(run.path()).FindNewestValid(nullptr)->step, 7);
}

// A file stands in the place of the folder of checkpoints, so nothing can be saved until it is removed.
TEST(AsyncWriterTest, AFailureComesOutAtTheNextCallAndTheWriterGoesOn) {
  TemporaryFolder run;
  WriteAll(run / "checkpoints", "in the way");
  std::vector<std::string> warnings;
  AsyncWriter writer(Store(run.path()), Quick(&warnings));
  writer.Save(MakeSnapshot(1));
  EXPECT_THROW(writer.Wait(), StorageError);
  EXPECT_EQ(warnings.size(), 2u);  // of three attempts; the error of the third is thrown
  EXPECT_NO_THROW(writer.Wait());  // each error is thrown once
  writer.Save(MakeSnapshot(2));
  EXPECT_THROW(writer.Save(MakeSnapshot(3)), StorageError);
  fs::remove(run / "checkpoints");
  writer.Save(MakeSnapshot(4));
  writer.Wait();
  EXPECT_THAT(Store(run.path()).Steps(), ElementsAre(4));
}

TEST(AsyncWriterTest, AFailureThatNobodyAskedAboutIsAWarning) {
  TemporaryFolder run;
  WriteAll(run / "checkpoints", "in the way");
  std::vector<std::string> warnings;
  { AsyncWriter(Store(run.path()), Quick(&warnings)).Save(MakeSnapshot(1)); }
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_THAT(warnings.back(), HasSubstr("could not be saved"));
}

TEST(AsyncWriterTest, ATransientFailureIsRetried) {
  TemporaryFolder run;
  std::vector<std::string> warnings;
  ::setenv("DTRAIN_FAIL_AT", "5", 1);  // no other operation has been counted in this process
  AsyncWriter writer(Store(run.path()), Quick(&warnings));
  writer.Save(MakeSnapshot(1));
  EXPECT_NO_THROW(writer.Wait());
  ::unsetenv("DTRAIN_FAIL_AT");
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(HoldsItsSnapshot(*Store(run.path()).FindNewestValid(nullptr)));
}

}  // namespace
}  // namespace dtrain::checkpoint
