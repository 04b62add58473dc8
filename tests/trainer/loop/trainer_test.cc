// Tests the loop with a task that can be computed by hand. However the global batch is divided, the optimizer sees the
// gradient of the sum over it, divided by its weight.
#include "trainer/loop/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "data/formats/raw_rows.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/distributed/ranks_in_threads.h"
#include "tests/trainer/loop/fake_graph.h"
#include "tests/trainer/loop/fake_task.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kSamples = 28;
constexpr int64_t kGlobalBatch = 12;
constexpr int64_t kSteps = 5;

config::Config ConfigOf(int64_t accumulation, double clip_norm) {
  config::Config config;
  config.data.shuffle = "none";
  config.batch.global_batch_size = kGlobalBatch;
  config.batch.grad_accum_steps = accumulation;
  config.batch.max_steps = kSteps;
  config.optimizer = {.lr = 0.3, .momentum = 0, .weight_decay = 0, .clip_norm = clip_norm};
  config.schedule.name = "constant";
  config.report.log_format = "json";
  return config;
}

tasks::DataSets SyntheticData() {
  auto source = std::make_unique<data::Synthetic>(kSamples, 2, 4, 4);
  auto decoder = std::make_unique<data::RawRowDecoder>(source->rows());
  tasks::DataSets data;
  data.train.emplace();
  data.train->name = "train";
  data.train->source = std::move(source);
  data.train->decoder = std::move(decoder);
  return data;
}

// The state of a rank at the end of its run.
struct Trained {
  at::Tensor weight;
  std::vector<float> draws;
};

Trained TrainOneRank(const config::Config& config, distributed::Communicator& communicator,
                     control::ControlPlane& control, const std::filesystem::path& folder, StepGraph* step_graph,
                     int64_t poisoned) {
  const tasks::DataSets data = SyntheticData();
  const auto batches = tasks::MakeTrainBatches(*data.train, config, communicator.world_size());
  const Plan plan = MakePlan(config, kSamples, communicator.world_size(), batches->units(), batches->units_per_step());
  FakeTask task;
  task.poisoned = poisoned;
  Reporter reporter(config.report, /*rank=*/1, {.model = "fake", .total_steps = plan.total_steps}, std::nullopt);
  const report::RunDirectory files(folder);
  Trainer trainer({config, plan, data, *batches, task, communicator, control, reporter, files, at::kCPU, step_graph,
                   nlohmann::json::object()},
                  /*writer=*/nullptr);
  trainer.Restore({.losses = {.count = SpikeWatch::kWindow, .mean = 0.5, .variance = 0.01}}, nullptr);
  trainer.Run();
  return {task.module().parameters()[0].detach().clone(), task.draws};
}

// Returns the results by rank.
std::vector<Trained> TrainRanks(const config::Config& config, int world_size, int64_t poisoned = -1,
                                StepGraph* step_graph = nullptr) {
  const TemporaryFolder folder;
  std::vector<Trained> trained(static_cast<size_t>(world_size));
  distributed::RunTraining(world_size,
                           [&](int rank, distributed::Communicator& communicator, control::ControlPlane& control) {
                             trained[static_cast<size_t>(rank)] =
                                 TrainOneRank(config, communicator, control, folder.path(), step_graph, poisoned);
                           });
  return trained;
}

at::Tensor FittedByHand(double learning_rate, double clip_norm, const std::set<int64_t>& skipped = {}) {
  at::Tensor weight = at::zeros({FakeSamples::kFeatures}, at::kDouble);
  for (int64_t step = 0; step < kSteps; ++step) {
    if (skipped.contains(step)) continue;
    const FakeSamples samples(at::arange(step * kGlobalBatch, (step + 1) * kGlobalBatch).remainder(kSamples));
    const at::Tensor error = samples.features.mv(weight) - samples.target;
    at::Tensor gradient = samples.features.t().mv(2 * samples.weight * error) / samples.weight.sum();
    const double norm = gradient.norm().item<double>();
    if (clip_norm > 0 && norm > clip_norm) gradient = gradient * (clip_norm / norm);
    weight = weight - learning_rate * gradient;
  }
  return weight;
}

TEST(Trainer, NormalisesByTheWeightOfTheGlobalBatch) {
  for (const double clip_norm : {0.0, 0.05}) {
    const at::Tensor expected = FittedByHand(0.3, clip_norm);
    for (const auto& [world_size, accumulation] : {std::pair{1, 1}, {1, 4}, {2, 2}, {3, 2}}) {
      for (const Trained& rank : TrainRanks(ConfigOf(accumulation, clip_norm), world_size)) {
        EXPECT_TRUE(at::allclose(rank.weight.to(at::kDouble), expected, 1e-5, 1e-6))
            << world_size << " ranks, " << accumulation << " micro-steps, clip " << clip_norm << "\n"
            << rank.weight << expected;
      }
    }
  }
}

// Sample 27 is in the third and in the fifth batch.
TEST(Trainer, AStepWhoseLossIsASpikeIsSkipped) {
  const at::Tensor expected = FittedByHand(0.3, 0.05, /*skipped=*/{2, 4});
  for (const auto& [world_size, accumulation] : {std::pair{1, 1}, {1, 4}, {3, 2}}) {
    config::Config config = ConfigOf(accumulation, 0.05);
    config.optimizer.spike_factor = 50;
    config.optimizer.on_spike = "skip";
    for (const Trained& rank : TrainRanks(config, world_size, /*poisoned=*/27)) {
      EXPECT_TRUE(at::allclose(rank.weight.to(at::kDouble), expected, 1e-5, 1e-6))
          << world_size << " ranks, " << accumulation << " micro-steps\n"
          << rank.weight << expected;
    }
  }
}

config::Config ElasticConfig(int64_t shards) {
  config::Config config = ConfigOf(1, 0.05);
  config.ranks.deterministic = "elastic";
  config.batch.elastic_shards = shards;
  return config;
}

TEST(Trainer, ElasticStepsHaveTheSameBitsOnAnyNumberOfRanks) {
  const at::Tensor expected = TrainRanks(ElasticConfig(5), 1).front().weight;
  EXPECT_TRUE(at::allclose(expected.to(at::kDouble), FittedByHand(0.3, 0.05), 1e-5, 1e-6));
  for (const int world_size : {2, 3, 5}) {
    for (const Trained& rank : TrainRanks(ElasticConfig(5), world_size)) {
      EXPECT_TRUE(at::equal(rank.weight, expected)) << world_size << " ranks\n" << rank.weight << expected;
    }
  }
}

// With two shards (a factor of 2 is exact) the bits are those of two ranks.
TEST(Trainer, AShardIsWhatARankOfAPlainRunHas) {
  const at::Tensor plain = TrainRanks(ConfigOf(1, 0.05), 2).front().weight;
  EXPECT_TRUE(at::equal(TrainRanks(ElasticConfig(2), 1).front().weight, plain));
  EXPECT_FALSE(at::equal(TrainRanks(ConfigOf(1, 0.05), 1).front().weight, plain));
}

// The learning rate is exact in float32. The first, the last and the other micro-steps of a step have a graph each.
TEST(Trainer, RecordedStepsHaveTheSameBits) {
  for (const auto& [accumulation, clip_norm] : {std::pair{1, 0.0}, {1, 0.05}, {2, 0.05}, {3, 0.05}}) {
    config::Config config = ConfigOf(accumulation, clip_norm);
    config.optimizer.lr = 0.25;
    config.optimizer.momentum = 0.5;
    const Trained plain = TrainRanks(config, 1).front();
    FakeGraphs::Counts counts;
    StepGraph graph(std::make_unique<FakeGraphs>(&counts), /*required=*/true);
    const Trained recorded = TrainRanks(config, 1, /*poisoned=*/-1, &graph).front();
    EXPECT_TRUE(at::equal(recorded.weight, plain.weight)) << recorded.weight << plain.weight;
    EXPECT_EQ(recorded.draws, plain.draws);
    // Three steps, and before them the reducer is made.
    EXPECT_EQ(counts, (FakeGraphs::Counts{.ran = 1 + 3 * accumulation,
                                          .recorded = accumulation,
                                          .replayed = accumulation * (static_cast<int>(kSteps) - 3)}));
  }
}

// Runs one rank: several ranks are threads here and would share torch's generators, unlike processes.
TEST(Trainer, EveryMicroStepAndEveryShardHasDrawsOfItsOwn) {
  const auto draws_of = [](const config::Config& config) { return TrainRanks(config, 1).front().draws; };
  const std::vector<float> draws = draws_of(ConfigOf(2, 0)), of_shards = draws_of(ElasticConfig(3));
  EXPECT_EQ(draws, draws_of(ConfigOf(2, 0)));
  config::Config other_seed = ConfigOf(2, 0);
  ++other_seed.batch.seed;
  EXPECT_NE(draws, draws_of(other_seed));
  EXPECT_EQ(std::set<float>(draws.begin(), draws.end()).size(), static_cast<size_t>(2 * kSteps));
  EXPECT_EQ(std::set<float>(of_shards.begin(), of_shards.end()).size(), static_cast<size_t>(3 * kSteps));
  EXPECT_EQ(of_shards.front(), draws_of(ConfigOf(1, 0)).front());  // the first shard's
}

}  // namespace
}  // namespace dtrain::loop
