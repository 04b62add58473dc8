// A progress survives saving and restoring; damaged ones and those of other runs are refused.
#include "trainer/loop/training_state.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <limits>

#include "models/registry.h"
#include "tests/message_of.h"
#include "trainer/errors.h"

namespace dtrain::loop {
namespace {

TEST(Progress, SurvivesJson) {
  Progress progress;
  progress.step = 1234;
  progress.interval = {{"loss_sum", 0.1 + 0.2}, {"weight", 640}};
  progress.last_train_loss = 1.0 / 3;
  progress.validation =
      report::ValPoint{.step = 1200, .epoch = 2.5, .metrics = {{"top1", 76.1, 2, true, "  top1", 3}, {"loss", 0.75}}};
  progress.validation->further = {{.metrics = {{"top1", 70.5, 2, true}}, .split = "test"}};
  progress.best = report::ValPoint{.step = 600, .epoch = 1.25, .metrics = {{"top1", 76.2, 2, true}}};
  progress.bucket_layout = {{2, 1}, {0}};
  progress.losses = {.count = 1234, .mean = 0.1, .variance = 1.0 / 7};
  const nlohmann::json saved = ToJson(progress);
  EXPECT_EQ(saved.size(), 8U);
  const Progress back = ProgressFromJson(nlohmann::json::parse(saved.dump()));
  EXPECT_EQ(ToJson(back), saved);
  EXPECT_EQ(back.step, 1234);
  EXPECT_EQ(back.interval, progress.interval);
  EXPECT_EQ(back.validation->metrics, progress.validation->metrics);
  EXPECT_EQ(back.validation->further.front().metrics, progress.validation->further.front().metrics);
  EXPECT_EQ(back.best->metrics, progress.best->metrics);
  EXPECT_EQ(back.bucket_layout, progress.bucket_layout);
  EXPECT_EQ(back.losses.variance, 1.0 / 7);
}

TEST(Progress, WithoutValidationOrWithADivergedOne) {
  EXPECT_FALSE(ProgressFromJson(nlohmann::json::parse(ToJson(Progress{}).dump())).validation);
  Progress diverged;
  diverged.validation = report::ValPoint{.metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()}}};
  const Progress back = ProgressFromJson(nlohmann::json::parse(ToJson(diverged).dump()));
  EXPECT_TRUE(std::isnan(back.validation->metrics.front().value));
}

// Replaces each value by values of other types, which must be refused and not cast.
TEST(Progress, RefusesOtherKindsOfValues) {
  Progress progress;
  progress.validation = progress.best = report::ValPoint{.step = 3, .epoch = 1, .metrics = {{"top1", 76.1, 2, true}}};
  progress.best->further = {{.metrics = {{"top1", 70.5, 2, true}}, .split = "test"}};
  progress.bucket_layout = {{1}, {0}};
  progress.losses.count = 3;
  const nlohmann::json whole = nlohmann::json::parse(ToJson(progress).dump());
  const nlohmann::json kinds[] = {
      -1, INT64_MIN, UINT64_MAX, 0.5, 1e300, true, "text", nlohmann::json::array(), nlohmann::json::object()};
  int refused = 0;
  const nlohmann::json leaves = whole.flatten();
  for (const auto& [pointer, value] : leaves.items()) {
    for (const nlohmann::json& kind : kinds) {
      const bool number = value.is_number_float() && kind.is_number();
      if (number || kind.type() == value.type()) continue;
      nlohmann::json other = whole;
      other[nlohmann::json::json_pointer(pointer)] = kind;
      EXPECT_THROW(ProgressFromJson(other), StorageError) << pointer << " " << kind;
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  for (const auto& [key, value] : whole.items()) {
    if (key == "losses") continue;  // only some runs have them
    nlohmann::json other = whole;
    other.erase(key);
    EXPECT_THROW(ProgressFromJson(other), StorageError) << key;
  }
  EXPECT_THROW(ProgressFromJson(nlohmann::json()), StorageError);
  EXPECT_THROW(RequireSameRun(nlohmann::json(3), {{"seed", 1}}, false), StorageError);
}

TEST(RequireSameRun, NamesWhatDiffers) {
  const nlohmann::json saved = {{"seed", 1}, {"model", "resnet50"}, {"data_fingerprint", "aa"}};
  EXPECT_NO_THROW(RequireSameRun(saved, saved, false));
  nlohmann::json other = saved;
  other["seed"] = 2;
  EXPECT_ERROR("seed = 1, but this run has 2", RequireSameRun(saved, other, true));
  other = saved;
  other[kShardsKey] = 4;
  EXPECT_ERROR("without --deterministic=elastic", RequireSameRun(saved, other, true));
  EXPECT_ERROR("with --deterministic=elastic", RequireSameRun(other, saved, true));
}

// The key of an optional flag is missing in one of the two. It must be named before the data that follows from it.
TEST(RequireSameRun, AFlagThatIsMissingHasItsDefault) {
  const nlohmann::json plain = {{"data_samples", 100}, {"seed", 1}};
  const nlohmann::json held_out = {{"data_samples", 90}, {"seed", 1}, {"val_fraction", 0.1}};
  EXPECT_ERROR("val_fraction = 0.0, but this run has 0.1",
               RequireSameRun(plain, held_out, /*allow_dataset_change=*/true));
  EXPECT_ERROR("val_fraction = 0.1, but this run has 0.0",
               RequireSameRun(held_out, plain, /*allow_dataset_change=*/true));
  EXPECT_NO_THROW(RequireSameRun(plain, {{"data_samples", 100}, {"seed", 1}, {"freeze", ""}}, false));
}

}  // namespace
}  // namespace dtrain::loop
