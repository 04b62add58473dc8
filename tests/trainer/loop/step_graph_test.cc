// Which steps are recorded, tested with a graph on the CPU. tests/gpu tests CUDA's graphs.
#include "trainer/loop/step_graph.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/loop/fake_graph.h"
#include "trainer/errors.h"

namespace dtrain::loop {
namespace {

data::Batch BatchOf(int64_t rows, float value) {
  data::Batch batch;
  batch.tensors["x"] = at::full({rows, 2}, value);
  batch.tensors["index"] = at::arange(rows);
  return batch;
}

// The step adds learning rate × Σx to a total.
struct Steps {
  at::Tensor total = at::zeros({});
  FakeGraph::Counts counts;
  StepGraph graph{std::make_unique<FakeGraph>(&counts), at::kCPU};

  void Run(int64_t rows, float value, double learning_rate) {
    graph.Run(BatchOf(rows, value), learning_rate, [total = total](const data::Batch& batch, const at::Tensor& rate) {
      at::Tensor(total).add_(batch["x"].sum() * rate);
    });
  }
  float Total() const { return total.item<float>(); }
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
  }
  EXPECT_EQ(steps.counts, (FakeGraph::Counts{.ran = 3, .recorded = 1, .replayed = 7}));
}

TEST(StepGraph, ABatchOfAnotherShapeIsWorkedOnAsItComes) {
  Steps steps;
  float wanted = 0;
  for (const int64_t rows : {4, 4, 4, 4, 1, 4, 1, 4, 1, 4, 1, 4}) {
    steps.Run(rows, 1, 1);
    wanted += 2 * static_cast<float>(rows);
    EXPECT_EQ(steps.Total(), wanted);
  }
  EXPECT_EQ(steps.counts, (FakeGraph::Counts{.ran = 7, .recorded = 1, .replayed = 5}));
}

TEST(StepGraph, AShapeThatStaysIsRecordedInPlaceOfTheOneBefore) {
  Steps steps;
  for (const int64_t rows : {4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 4}) steps.Run(rows, 1, 1);
  EXPECT_EQ(steps.Total(), 2 * (6 * 4 + 6 * 2));
  EXPECT_EQ(steps.counts, (FakeGraph::Counts{.ran = 3 + 3 + 1, .recorded = 2, .replayed = 2 + 3}));
}

TEST(StepGraph, AnotherTypeIsAnotherShape) {
  Steps steps;
  const auto run = [&](at::ScalarType type) {
    data::Batch batch = BatchOf(2, 1);
    batch.tensors["x"] = batch["x"].to(type);
    steps.graph.Run(batch, 1, [total = steps.total](const data::Batch& given, const at::Tensor& rate) {
      at::Tensor(total).add_(given["x"].sum() * rate);
    });
  };
  for (int i = 0; i < 5; ++i) run(at::kFloat);
  run(at::kByte);
  run(at::kFloat);
  EXPECT_EQ(steps.counts, (FakeGraph::Counts{.ran = 4, .recorded = 1, .replayed = 3}));
  EXPECT_EQ(steps.Total(), 7 * 4);
}

TEST(StepGraph, WhatCannotBeRecordedIsSaid) {
  struct Refuses : FakeGraph {
    using FakeGraph::FakeGraph;
    void Record(const std::function<void()>&) override { TORCH_CHECK(false, "operation not permitted"); }
  };
  FakeGraph::Counts counts;
  StepGraph graph(std::make_unique<Refuses>(&counts), at::kCPU);
  const auto run = [&] { graph.Run(BatchOf(1, 1), 1, [](const data::Batch&, const at::Tensor&) {}); };
  for (int i = 0; i < 3; ++i) run();
  try {
    run();
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("cannot be recorded"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("operation not permitted"), std::string::npos) << error.what();
  }
}

TEST(StepGraph, ConditionsAreNamed) {
  const at::Device gpu(at::kCUDA, 0);
  const std::vector<std::pair<GraphConditions, std::string>> cases = {
      {{.device = at::kCPU}, "CPU"},
      {{.device = gpu, .exchanges = true}, "gradients"},
      {{.device = gpu, .micro_steps = 2}, "--grad_accum_steps"},
      {{.device = gpu, .task = "the host draws"}, "the host draws"}};
  for (const auto& [conditions, reason] : cases) {
    EXPECT_NE(WhyNotRecorded(conditions).find(reason), std::string::npos) << reason;
    EXPECT_THROW(RequireGraphs("on", conditions), UsageError);
    EXPECT_THROW(MakeStepGraph("on", conditions), UsageError);
    EXPECT_NO_THROW(RequireGraphs("auto", conditions));
    EXPECT_EQ(MakeStepGraph("auto", conditions), nullptr);
    EXPECT_EQ(MakeStepGraph("off", conditions), nullptr);
  }
  EXPECT_EQ(WhyNotRecorded({.device = gpu}), "");
}

}  // namespace
}  // namespace dtrain::loop
