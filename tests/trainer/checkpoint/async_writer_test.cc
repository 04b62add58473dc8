#include "trainer/checkpoint/async_writer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <future>
#include <set>
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

class AsyncWriterTest : public ::testing::Test {
 protected:
  TemporaryFolder run;
};

TEST_F(AsyncWriterTest, SavesInOrderPrunesAndKeepsTheWeightsCurrent) {
  AsyncWriter writer(Store(run.path()), Quick());
  for (const int64_t step : {1, 2, 3, 4}) writer.Save(MakeSnapshot(step));
  writer.Wait();
  EXPECT_THAT(Store(run.path()).Steps(), ElementsAre(3, 4));
  const SafetensorsContent weights = ReadSafetensors(run / "model.safetensors");
  EXPECT_TRUE(at::equal(weights.tensors[0].second, at::full({3}, 4.0)));
  const SafetensorsContent average = ReadSafetensors(run / "model_ema.safetensors");
  EXPECT_TRUE(at::equal(average.tensors[0].second, at::full({3}, 1.0)));
  EXPECT_EQ(average.metadata.at("step"), "4");
  EXPECT_LT(writer.seconds_since_last_success(), 60);
}

// The copies from a GPU are still under way when Save returns.
TEST_F(AsyncWriterTest, NothingIsWrittenBeforeTheCopiesAreThere) {
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

// A file stands in the place of the folder of checkpoints, so nothing can be saved until it is removed.
TEST_F(AsyncWriterTest, AFailureComesOutAtTheNextCallAndTheWriterGoesOn) {
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

TEST_F(AsyncWriterTest, TheDestructorFinishesThePendingSaveOrWarns) {
  { AsyncWriter(Store(run.path()), Quick()).Save(MakeSnapshot(7)); }
  EXPECT_EQ(Store(run.path()).FindNewestValid(nullptr)->step, 7);
  fs::remove_all(run / "checkpoints");
  WriteAll(run / "checkpoints", "in the way");
  std::vector<std::string> warnings;
  { AsyncWriter(Store(run.path()), Quick(&warnings)).Save(MakeSnapshot(1)); }
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_THAT(warnings.back(), HasSubstr("could not be saved"));
}

TEST_F(AsyncWriterTest, ATransientFailureIsRetried) {
  std::vector<std::string> warnings;
  ::setenv("DTRAIN_FAIL_AT", "5", 1);  // no other operation has been counted in this process
  AsyncWriter writer(Store(run.path()), Quick(&warnings));
  writer.Save(MakeSnapshot(1));
  EXPECT_NO_THROW(writer.Wait());
  ::unsetenv("DTRAIN_FAIL_AT");
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(HoldsItsSnapshot(*Store(run.path()).FindNewestValid(nullptr)));
}

NamedTensors ManyTensors() {
  NamedTensors tensors;
  tensors.emplace_back("scalar", at::tensor(3, at::kLong));
  tensors.emplace_back("empty", at::empty({0, 3}));
  tensors.emplace_back("channels_last", at::randn({5, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast));
  tensors.emplace_back("half", at::randn({7}).to(at::kHalf));
  tensors.emplace_back("gaps", at::randn({9, 4}).slice(1, 0, 4, 2));
  tensors.emplace_back("transposed", at::randn({3, 4}).t());
  for (int i = 0; i < 300; ++i) tensors.emplace_back("w" + std::to_string(i), at::randn({i + 1}));
  return tensors;
}

TEST(CopyToHost, AreTheSameInOneAllocation) {
  const std::vector<NamedTensors> sets = {ManyTensors(), {}, ManyTensors()};
  const HostCopies copies = CopyToHost(sets);
  copies.wait();
  copies.wait();
  std::set<const void*> allocations;
  ASSERT_EQ(copies.sets.size(), sets.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    ASSERT_EQ(copies.sets[i].size(), sets[i].size());
    for (size_t j = 0; j < sets[i].size(); ++j) {
      const auto& [name, original] = sets[i][j];
      const auto& [copied_name, copy] = copies.sets[i][j];
      EXPECT_EQ(name, copied_name);
      EXPECT_TRUE(at::equal(original, copy)) << name;
      EXPECT_EQ(original.scalar_type(), copy.scalar_type()) << name;
      if (name != "gaps") {
        EXPECT_EQ(original.strides(), copy.strides()) << name;
      }
      allocations.insert(copy.storage().data());
    }
  }
  EXPECT_EQ(allocations.size(), 1U);
  const HostCopies of_nothing = CopyToHost({{}, {}});
  of_nothing.wait();
  EXPECT_EQ(of_nothing.sets.size(), 2U);
}

TEST(CopyToHost, DoNotFollowTheOriginal) {
  const at::Tensor original = at::ones({3}).requires_grad_();
  const HostCopies copies = CopyToHost({{{"w", original}}});
  {
    const at::NoGradGuard no_grad;
    original.mutable_grad() = at::ones({3});
    at::Tensor(original.detach()).fill_(2);
  }
  EXPECT_TRUE(at::equal(copies.sets[0][0].second, at::ones({3})));
  EXPECT_FALSE(copies.sets[0][0].second.requires_grad());
}

// The tensors do not fit into one piece: each has a piece of its own or shares one.
TEST(CopyToHost, LargeOnesComeInPieces) {
  constexpr int64_t kKiB = 1024;
  NamedTensors tensors;
  for (const int64_t kib : {100, 100, 300, 60, 60}) {
    tensors.emplace_back(std::to_string(kib), at::zeros({kib * kKiB}, at::kByte));
    tensors.back().second.select(0, kib * kKiB - 1).fill_(kib % 256);
  }
  const HostCopies copies = CopyToHost({tensors}, 256 * kKiB);
  std::set<const void*> allocations;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& copy = copies.sets[0][i].second;
    EXPECT_EQ(copy.select(0, copy.numel() - 1).item<int64_t>(), copy.numel() / kKiB % 256);
    allocations.insert(copy.storage().data());
  }
  EXPECT_EQ(allocations.size(), 3U);
}

}  // namespace
}  // namespace dtrain::checkpoint
