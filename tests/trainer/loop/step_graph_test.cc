// Which steps are recorded, tested with graphs on the CPU. tests/gpu tests CUDA's graphs.
#include "trainer/loop/step_graph.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/message_of.h"
#include "tests/trainer/loop/fake_graph.h"
#include "trainer/errors.h"

namespace dtrain::loop {
namespace {

constexpr bool kRequired = true;

data::Batch BatchOf(int64_t rows, float value) {
  data::Batch batch;
  batch.tensors["x"] = at::full({rows, 2}, value);
  batch.on_host["index"] = at::arange(rows);
  return batch;
}

// The step adds learning rate × Σx to a total.
struct Steps {
  explicit Steps(std::function<void()> on_record = nullptr, bool has_room = true, bool required = false)
      : graph(MakeGraphs(std::move(on_record), has_room), required) {}

  std::unique_ptr<device::DeviceGraphs> MakeGraphs(std::function<void()> on_record, bool has_room) {
    auto graphs = std::make_unique<FakeGraphs>(&counts);
    graphs->has_room = has_room;
    graphs->before_recording = std::move(on_record);
    fake = graphs.get();
    return graphs;
  }

  void Run(int64_t rows, float value, double learning_rate) {
    rate.fill_(learning_rate);
    graph.Run(BatchOf(rows, value), [total = total, rate = rate](const data::Batch& batch) {
      at::Tensor(total).add_(batch["x"].sum() * rate);
    });
  }
  void Run(const std::vector<int64_t>& rows) {
    for (const int64_t count : rows) Run(count, 1, 1);
  }
  float Total() const { return total.item<float>(); }

  at::Tensor total = at::zeros({}), rate = at::ones({});
  FakeGraphs::Counts counts;
  FakeGraphs* fake = nullptr;
  StepGraph graph;
};

TEST(StepGraph, RecordsOnceAndReadsWhatIsNew) {
  Steps steps;
  float wanted = 0;
  for (int step = 1; step <= 10; ++step) {
    const double rate = 1.0 / (1 << step);
    const auto value = static_cast<float>(step);
    steps.Run(3, value, rate);
    wanted += 6 * value * static_cast<float>(rate);
    EXPECT_EQ(steps.Total(), wanted) << step;
    EXPECT_EQ(steps.graph.replayed(), step > StepGraph::kWarmUpSteps) << step;
  }
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 3, .recorded = 1, .replayed = 7}));
}

TEST(StepGraph, SomeShapesHaveAGraphEach) {
  Steps steps;
  std::vector<int64_t> shapes(StepGraph::kMostGraphs + 1);
  std::iota(shapes.begin(), shapes.end(), 1);
  for (int i = 0; i < 5; ++i) steps.Run(shapes);
  // Each but the last was recorded at its fourth step. The last one finds all graphs in use.
  constexpr int kMost = StepGraph::kMostGraphs;
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = kMost * 3 + 5, .recorded = kMost, .replayed = kMost * 2}));
  EXPECT_EQ(steps.Total(), 5 * (kMost + 1) * (kMost + 2));
}

TEST(StepGraph, AMoreFrequentShapeTakesThePlaceOfTheRarest) {
  Steps steps;
  std::vector<int64_t> shapes(StepGraph::kMostGraphs);
  std::iota(shapes.begin(), shapes.end(), 2);
  for (int i = 0; i < 4; ++i) steps.Run(shapes);
  steps.Run({2});
  steps.counts = {};
  steps.Run({1, 1, 1, 1, 1, 1, 1});  // from 6 = 1.5 · 4 times on in place of shape 3
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 5, .recorded = 1, .replayed = 2}));
  steps.counts = {};
  steps.Run({2, 4, 1, 3});
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 1, .recorded = 0, .replayed = 3}));
}

TEST(StepGraph, WhatWasFrequentLongAgoMakesPlace) {
  Steps steps;
  steps.Run(std::vector<int64_t>(5 * StepGraph::kHalfLife, 2));
  steps.fake->has_room = false;
  steps.Run(std::vector<int64_t>(2 * StepGraph::kHalfLife, 1));
  EXPECT_EQ(steps.counts.recorded, 2);
  EXPECT_TRUE(steps.graph.replayed());
}

// Ragged text: batches of 32 whose lengths are log-normal, filled up to the longest one of at most 512 tokens, to a
// multiple of 8.
TEST(StepGraph, RaggedTextIsReplayed) {
  constexpr int kMicroSteps = 4000;
  constexpr double kSigma = 0.55;
  for (const auto& [mean, micro_steps] : {std::pair{100.0, 1}, {60.0, 4}, {25.0, 1}}) {
    std::mt19937 random(1);
    std::lognormal_distribution<double> lengths(std::log(mean) - kSigma * kSigma / 2, kSigma);
    Steps steps;
    int replayed = 0;
    for (int i = 0; i < kMicroSteps; ++i) {
      double longest = 0;
      for (int row = 0; row < 32; ++row) longest = std::max(longest, std::min(512.0, lengths(random)));
      data::Batch batch;
      batch.tensors["x"] = at::empty({static_cast<int64_t>(std::ceil(longest / 8))});
      batch.part = {.step = i / micro_steps, .micro_step = i % micro_steps, .micro_steps = micro_steps};
      batch.on_host["index"] = at::arange(32);
      steps.graph.Run(batch, [](const data::Batch&) {});
      if (i >= kMicroSteps / 2) replayed += steps.graph.replayed();
    }
    EXPECT_GE(replayed, 0.95 * kMicroSteps / 2) << mean;
    EXPECT_LE(steps.counts.recorded, 3 * StepGraph::kMostGraphs) << mean;  // again after each larger batch
  }
}

TEST(StepGraph, ALargerBatchThanAllBeforeHasTheGraphsMemory) {
  Steps steps;
  steps.Run({2, 2, 2, 2});
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 3, .recorded = 1, .replayed = 1}));
  steps.Run({4, 2});  // the graph of two rows is recorded again
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 4, .recorded = 2, .replayed = 2}));
  EXPECT_EQ(steps.Total(), 2 * (5 * 2 + 4));
}

TEST(StepGraph, WithoutRoomForAnotherTheGraphsStay) {
  Steps steps;
  steps.Run({2, 2, 2, 2});
  steps.fake->has_room = false;
  steps.Run({1, 1, 1, 1, 1, 2});
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 8, .recorded = 1, .replayed = 2}));
  bool is_full = false;
  Steps other([&is_full] {
    if (is_full) TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory");
  });
  other.Run({2, 2, 2, 2});
  is_full = true;
  other.Run({1, 1, 1, 1, 2});
  EXPECT_EQ(other.counts, (FakeGraphs::Counts{.ran = 7, .recorded = 1, .replayed = 2}));
}

TEST(StepGraph, ManyShapesDoNotPileUp) {
  Steps steps;
  for (int i = 0; i < 5; ++i) {
    for (int64_t rows = 1; rows <= static_cast<int64_t>(StepGraph::kMostShapes) + 1; ++rows) steps.Run({rows});
  }
  EXPECT_EQ(steps.counts.recorded, 0);  // each shape was forgotten before it came again
}

// The parts of a step that has three micro-steps do different work with batches of one shape.
TEST(StepGraph, EachPartOfAStepHasAGraphOfItsOwn) {
  Steps steps;
  for (int64_t i = 0; i < 15; ++i) {
    data::Batch batch = BatchOf(1, 1);
    batch.part = {.step = i / 3, .micro_step = i % 3, .micro_steps = 3};
    steps.graph.Run(batch, [part = batch.part, total = steps.total](const data::Batch&) {
      at::Tensor(total).add_(part.first() ? 1 : part.last() ? 100 : 10);
    });
  }
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 9, .recorded = 3, .replayed = 6}));
  EXPECT_EQ(steps.Total(), 555);
}

// Text is a flat list of tokens: the number of rows shows only in a tensor that stays on the host.
TEST(StepGraph, AnotherTypeOrNumberOfSamplesIsAnotherShape) {
  Steps steps;
  const auto run = [&](at::ScalarType type, int64_t samples) {
    data::Batch batch;
    batch.tensors["x"] = at::ones({12}, type);
    batch.on_host["index"] = at::arange(samples);
    steps.graph.Run(batch, [total = steps.total](const data::Batch& given) {
      at::Tensor(total).add_(static_cast<double>(given.size()));
    });
  };
  for (int i = 0; i < 5; ++i) run(at::kFloat, 3);
  run(at::kByte, 3);
  run(at::kFloat, 4);
  run(at::kFloat, 3);
  EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 5, .recorded = 1, .replayed = 3}));
  EXPECT_EQ(steps.Total(), 7 * 3 + 4);
}

void Refuse() { TORCH_CHECK(false, "operation not permitted"); }
void RunOutOfMemory() { TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory"); }

TEST(StepGraph, WhatCannotBeRecordedRunsUnrecorded) {
  for (const auto& [on_record, has_room] : std::vector<std::pair<std::function<void()>, bool>>{
           {&Refuse, true}, {&RunOutOfMemory, true}, {nullptr, false}}) {
    Steps steps(on_record, has_room);
    steps.Run({4, 4, 4, 4, 4, 1, 4, 4});
    EXPECT_EQ(steps.counts, (FakeGraphs::Counts{.ran = 8, .recorded = 0, .replayed = 0}));
    EXPECT_EQ(steps.Total(), 2 * (7 * 4 + 1));
    EXPECT_FALSE(steps.graph.replayed());
  }
}

TEST(StepGraph, AGraphThatMustBeIsAnErrorOtherwise) {
  Steps refused(&Refuse, true, kRequired);
  refused.Run({4, 4, 4});
  EXPECT_THAT(MessageOf([&] { refused.Run({4}); }),
              testing::ContainsRegex("cannot be recorded.*operation not permitted"));
  Steps without_memory(&RunOutOfMemory, true, kRequired);
  without_memory.Run({4, 4, 4});
  EXPECT_THROW(without_memory.Run({4}), c10::OutOfMemoryError);
  Steps full(nullptr, false, kRequired);
  full.Run({4, 4, 4, 4});
  EXPECT_TRUE(full.graph.replayed());
}

TEST(StepGraph, AnErrorOfTheStepItselfIsNotHidden) {
  Steps steps([] { throw DataError("the step's own", ""); });
  steps.Run({4, 4, 4});
  EXPECT_THROW(steps.Run({4}), DataError);
}

TEST(StepGraph, ConditionsAreNamed) {
  const at::Device gpu(at::kCUDA, 0);
  EXPECT_NE(WhyNotRecorded(at::kCPU, false, "").find("CPU"), std::string::npos);
  EXPECT_NE(WhyNotRecorded(gpu, true, "").find("--deterministic=elastic"), std::string::npos);
  EXPECT_EQ(WhyNotRecorded(gpu, false, "the host draws"), "the host draws");
  EXPECT_EQ(WhyNotRecorded(gpu, false, ""), "");
  EXPECT_EQ(DescribeGraphs("auto", "the host draws"), "auto: no, because the host draws");
  EXPECT_EQ(DescribeGraphs("auto", ""), "auto: yes");
  EXPECT_EQ(DescribeGraphs("off", ""), "off");
  EXPECT_THROW(RequireGraphs("on", "the host draws"), UsageError);
  EXPECT_THROW(MakeStepGraph("on", gpu, "the host draws"), UsageError);
  EXPECT_NO_THROW(RequireGraphs("auto", "the host draws"));
  EXPECT_EQ(MakeStepGraph("auto", gpu, "the host draws"), nullptr);
  EXPECT_EQ(MakeStepGraph("off", gpu, ""), nullptr);
}

}  // namespace
}  // namespace dtrain::loop
