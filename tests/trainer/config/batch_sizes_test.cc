// Every combination of given sizes, with the derived sizes or the problem.
#include "trainer/config/batch_sizes.h"

#include <gmock/gmock.h>

#include "trainer/errors.h"

namespace dtrain::config {
namespace {

constexpr auto kNone = std::nullopt;

BatchConfig Given(std::optional<int64_t> batch, std::optional<int64_t> global, std::optional<int64_t> accumulation) {
  BatchConfig config;
  config.batch_size = batch;
  config.global_batch_size = global;
  config.grad_accum_steps = accumulation;
  return config;
}

struct Case {
  BatchConfig given;
  int world_size;
  int64_t batch_size, grad_accum_steps, global_batch_size;
};

TEST(BatchSizes, DerivesWhatIsMissing) {
  const std::vector<Case> cases = {
      {Given(kNone, kNone, kNone), 4, 32, 1, 128}, {Given(kNone, kNone, 2), 4, 32, 2, 256},
      {Given(8, kNone, 5), 3, 8, 5, 120},          {Given(kNone, 8192, kNone), 32, 256, 1, 8192},
      {Given(kNone, 8192, 4), 8, 256, 4, 8192},    {Given(64, 8192, kNone), 8, 64, 16, 8192},
      {Given(64, 8192, 16), 8, 64, 16, 8192},      {Given(1'000'000, kNone, 1000), 1, 1'000'000, 1000, 1'000'000'000},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(BatchMistake(c.given, c.world_size), std::nullopt);
    const BatchSizes sizes = ResolveBatch(c.given, c.world_size);
    EXPECT_EQ(sizes.batch_size, c.batch_size);
    EXPECT_EQ(sizes.grad_accum_steps, c.grad_accum_steps);
    EXPECT_EQ(sizes.global_batch_size, c.global_batch_size);
  }
}

TEST(BatchSizes, ShardsDoNotDependOnTheRanks) {
  BatchConfig given = Given(3, 17, kNone);
  given.elastic_shards = 8;
  for (const int world_size : {1, 5, 8}) {
    const BatchSizes sizes = ResolveBatch(given, world_size);
    EXPECT_EQ(sizes.batch_size, 3);
    EXPECT_EQ(sizes.grad_accum_steps, 1);
    EXPECT_EQ(sizes.global_batch_size, 17);
  }
}

TEST(BatchSizes, RefusesWhatDoesNotFit) {
  struct Bad {
    BatchConfig given;
    int world_size;
    std::string text;
  };
  const std::vector<Bad> cases = {
      {Given(64, 100, 2), 1, "exactly world size (1) x batch_size (64) x grad_accum_steps (2) = 128"},
      {Given(kNone, 100, kNone), 3, "a multiple of world size (3) = 3; --global_batch_size=99 would fit"},
      {Given(kNone, 100, 8), 1, "--global_batch_size=96 would fit"},
      {Given(kNone, 2, kNone), 4, "--global_batch_size=4 would fit"},
      {Given(16, 1'000'000'000, kNone), 1,
       "--global_batch_size=1000000000: expected 1000000000 at most, in no more than 1000000 micro-steps"},
      {Given(kNone, 1'000'000'000, kNone), 8, "1000000 micro-steps of 1000000 samples a rank"},
      {Given(1'000'000, kNone, 1'000'000), 1'000'000,
       "--global_batch_size=1000000000000000000: expected 1000000000 at"},
      {Given(0, kNone, kNone), 1, "1 or more"},
      {Given(kNone, -8, kNone), 1, "1 or more"},
      {Given(kNone, kNone, 0), 1, "1 or more"},
      {Given(kNone, kNone, kNone), 0, "1 or more"},
      {Given(INT64_MAX, kNone, INT64_MAX), 2, "1 or more"},
  };
  for (const Bad& c : cases) {
    const auto problem = BatchMistake(c.given, c.world_size);
    ASSERT_TRUE(problem.has_value()) << c.text;
    EXPECT_THAT(Describe({*problem}), testing::HasSubstr(c.text));
    EXPECT_THROW(ResolveBatch(c.given, c.world_size), UsageError);
  }
}

TEST(BatchSizes, AGlobalBatchIsSharedAmongOtherRanks) {
  const auto shared = [](int64_t global, int64_t batch, int64_t world) {
    const auto sizes = ShareGlobalBatch(global, batch, world);
    if (sizes) {
      EXPECT_EQ(sizes->global_batch_size, global);
    }
    return sizes ? std::pair(sizes->batch_size, sizes->grad_accum_steps) : std::pair<int64_t, int64_t>();
  };
  using Sizes = std::pair<int64_t, int64_t>;
  EXPECT_EQ(shared(32, 16, 1), Sizes(16, 2));
  EXPECT_EQ(shared(32, 16, 2), Sizes(16, 1));
  EXPECT_EQ(shared(32, 16, 4), Sizes(8, 1));
  EXPECT_EQ(shared(48, 10, 1), Sizes(8, 6));
  EXPECT_EQ(shared(48, 16, 5), Sizes());
  EXPECT_EQ(shared(2, 16, 4), Sizes());
}

}  // namespace
}  // namespace dtrain::config
