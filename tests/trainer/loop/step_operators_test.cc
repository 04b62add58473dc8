// The steps of all tasks, as the trainer runs them on a GPU, call only operators of which is known that nobody waits.
// The kernels that normalise bytes, and those of a model's first convolution, have no part in it: images are float32.
#include "tests/step_operators.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <tuple>
#include <utility>

#include "data/formats/raw_rows.h"
#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "models/layers.h"
#include "tests/models/depthwise_stand_in.h"
#include "tests/models/norm_stand_in.h"
#include "tests/models/text_stand_in.h"
#include "tests/modernbert.h"
#include "tests/roberta.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/distributed/ranks_in_threads.h"
#include "trainer/loop/trainer.h"
#include "trainer/tasks/image_mix.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/masked_lm.h"
#include "trainer/tasks/text_task.h"

namespace dtrain::loop {
namespace {

constexpr struct { int64_t rows = 2, size = 32, classes = 5, words = 50, longest = 12; } kSmallest;

using Rows = std::map<std::string, at::Tensor>;  // all rows of each field

// Runs steps on the CPU as a GPU runs them when they are not recorded, and looks at all but the first, in which the
// reducer lays out its buckets.
class WatchedGraphs : public device::DeviceGraphs {
 public:
  explicit WatchedGraphs(std::set<std::string>& forbidden) : forbidden_(forbidden) {}
  void Run(const Work& work) override {
    const StepOperators operators;
    work();
    if (std::exchange(is_first_, false)) return;
    forbidden_ = operators.forbidden();
  }
  Work Record(const Work& work) override { return work; }
  bool HasRoom() override { return true; }

 private:
  bool is_first_ = true;
  std::set<std::string>& forbidden_;
};

enum class Kernels { kAten, kOwn };  // kOwn: what stands in for those of a GPU

struct Watched {
  config::Config config;
  Kernels kernels = Kernels::kAten;
  int ranks = 1;
};

config::Config ConfigOf(const std::string& task, const std::string& model, const std::string& precision,
                        const std::string& optimizer) {
  config::Config config;
  config.run.task = task;
  config.model.name = model;
  config.precision.name = precision;
  config.optimizer = {.name = optimizer, .lr = 0.1, .clip_norm = 1};
  config.image.size = kSmallest.size;
  config.text.tokens_per_sample = kSmallest.longest;
  config.report.log_format = "json";
  return config;
}

std::unique_ptr<tasks::Task> ImageTaskOf(const Watched& watched) {
  auto model = tasks::MakeModel(watched.config, kSmallest.classes, at::kCPU);
  if (watched.kernels == Kernels::kOwn) {
    models::UseKernels(*model, {.norm = &models::stand_in::kKernels,
                                .depthwise = &models::stand_in::kDepthwiseKernels,
                                .text = &models::stand_in::kTextKernels});
  }
  return std::make_unique<tasks::ImageClassificationTask>(
      std::move(model), tasks::DataSizes{.num_classes = kSmallest.classes}, watched.config, at::kCPU);
}

template <typename TaskType, typename Model>
std::unique_ptr<tasks::Task> TextTaskOf(const Watched& watched, std::shared_ptr<Model> model) {
  if (watched.kernels == Kernels::kOwn) models::UseKernels(*model, {.text = &models::stand_in::kTextKernels});
  return std::make_unique<TaskType>(std::move(model), watched.config, at::kCPU);
}

std::unique_ptr<tasks::Task> TaskOf(const Watched& watched) {
  const std::string& task = watched.config.run.task;
  if (task == "image_classification") return ImageTaskOf(watched);
  const models::EncoderOptions encoder{
      {.vocab_size = kSmallest.words, .hidden_size = 16, .longest_sequence = kSmallest.longest},
      /*layers=*/2,
      /*heads=*/2,
      /*intermediate_size=*/32};
  at::manual_seed(1);
  if (watched.config.model.name == "modernbert") {
    return TextTaskOf<tasks::MaskedLmTask>(
        watched, models::SmallModernBert(kSmallest.words, kSmallest.longest, /*dropout=*/0.1));
  }
  if (task == "masked_lm")
    return TextTaskOf<tasks::MaskedLmTask>(watched, std::make_shared<models::RobertaForMaskedLM>(encoder));
  const bool regression = task == "text_regression";
  auto classifier = std::make_shared<models::RobertaForSequenceClassification>(
      encoder, regression ? 1 : kSmallest.classes, /*classifier_dropout=*/0.1);
  if (regression) return TextTaskOf<tasks::TextRegressionTask>(watched, std::move(classifier));
  return TextTaskOf<tasks::TextClassificationTask>(watched, std::move(classifier));
}

Rows RowsFor(const std::string& task) {
  const at::Tensor number = at::arange(kSmallest.rows);
  if (task == "image_classification") {
    return {{"images", at::rand({kSmallest.rows, 3, kSmallest.size, kSmallest.size})}, {"labels", number}};
  }
  const at::Tensor ids =
      at::randint(data::kSpecialTokens, kSmallest.words, {kSmallest.rows, kSmallest.longest}, at::kLong);
  const at::Tensor place = at::arange(kSmallest.longest);
  Rows rows = {{data::kInputIds, ids},
               {data::kAttentionMask, place.unsqueeze(0).lt(kSmallest.longest - number.unsqueeze(1)).to(at::kByte)}};
  if (task == "masked_lm") rows[data::kTokenLabels] = ids.masked_fill(place.remainder(3).ne(1), data::kNoLoss);
  if (task != "masked_lm") rows[data::kSentenceLabels] = number;
  if (task == "text_regression") rows[data::kSentenceTargets] = number.to(at::kFloat);
  return rows;
}

std::set<std::string> ForbiddenOnRank(const Watched& watched, distributed::Communicator& communicator,
                                      control::ControlPlane& control) {
  const config::Config& config = watched.config;
  const auto task = TaskOf(watched);
  if (config.ranks.sync_bn) {
    models::SynchronizeBatchNorm(task->module(), [&](at::Tensor& sums) { communicator.Sum(sums); });
  }
  auto source = std::make_unique<data::Synthetic>(kSmallest.rows, 1, 1, 1);
  auto decoder = std::make_unique<data::RawRowDecoder>(source->rows());
  const auto take_rows = [rows = RowsFor(config.run.task), mix = tasks::MixBatches(config)](data::Batch& batch) {
    batch.tensors.erase("images");  // the source's; all have labels
    for (const auto& [name, all] : rows) batch.tensors[name] = all.index_select(0, batch["index"]);
    if (mix) mix(batch);
  };
  tasks::DataSets data;
  data.train = tasks::DataSplit{
      .name = "train", .source = std::move(source), .decoder = std::move(decoder), .collate = take_rows};
  const auto batches = tasks::MakeTrainBatches(*data.train, config, communicator.world_size());
  const Plan plan =
      MakePlan(config, kSmallest.rows, communicator.world_size(), batches->units(), batches->units_per_step());
  Reporter reporter(config.report, /*rank=*/1, {.model = "small", .total_steps = plan.total_steps}, std::nullopt);
  std::set<std::string> forbidden;
  StepGraph graph(std::make_unique<WatchedGraphs>(forbidden), /*required=*/true);
  const TemporaryFolder folder;
  const report::RunDirectory files(folder.path());
  Trainer trainer({config, plan, data, *batches, *task, communicator, control, reporter, files, at::kCPU, &graph,
                   nlohmann::json::object()},
                  /*writer=*/nullptr);
  trainer.Restore({}, nullptr);
  trainer.Run();
  return forbidden;
}

// Returns what a step must not call, and calls.
std::set<std::string> ForbiddenIn(Watched watched) {
  watched.config.batch.max_steps = 2;
  watched.config.batch.global_batch_size = kSmallest.rows;
  std::vector<std::set<std::string>> forbidden(static_cast<size_t>(watched.ranks));
  distributed::RunTraining(watched.ranks,
                           [&](int rank, distributed::Communicator& communicator, control::ControlPlane& control) {
                             forbidden[static_cast<size_t>(rank)] = ForbiddenOnRank(watched, communicator, control);
                           });
  for (const auto& of_rank : forbidden) forbidden[0].insert(of_rank.begin(), of_rank.end());
  return forbidden[0];
}

const std::set<std::string> kNothing;

TEST(StepOperators, OfImages) {
  Watched resnet{ConfigOf("image_classification", "resnet18", "bf16", "lars"), Kernels::kAten};
  resnet.config.image.mixup = resnet.config.image.cutmix = 0.2;
  EXPECT_EQ(ForbiddenIn(resnet), kNothing);
  Watched efficientnet{ConfigOf("image_classification", "efficientnet_b0", "bf16", "rmsprop_tf"), Kernels::kOwn};
  efficientnet.config.optimizer.loss = "bce";
  efficientnet.config.optimizer.spike_factor = 6;
  efficientnet.config.optimizer.on_spike = "skip";
  EXPECT_EQ(ForbiddenIn(efficientnet), kNothing);
  for (const char* name : {"deit3_small_patch16_224", "convnext_atto"}) {
    Watched watched{ConfigOf("image_classification", name, "bf16", "adamw"), Kernels::kOwn};
    watched.config.model.drop_path = 0.2;
    EXPECT_EQ(ForbiddenIn(watched), kNothing) << name;
  }
}

TEST(StepOperators, OfSynchronizedBatchNorm) {
  Watched resnet{ConfigOf("image_classification", "resnet18", "bf16", "sgd"), Kernels::kOwn, /*ranks=*/2};
  resnet.config.ranks.sync_bn = true;
  EXPECT_EQ(ForbiddenIn(resnet), kNothing);
}

TEST(StepOperators, OfText) {
  for (const auto& [task, precision, optimizer, unpad, kernels] :
       {std::tuple{"masked_lm", "bf16", "adamw", false, Kernels::kAten},
        {"masked_lm", "fp16", "lamb", false, Kernels::kOwn},
        {"masked_lm", "fp16", "fairseq_adam", true, Kernels::kAten},
        {"text_classification", "bf16", "adam", true, Kernels::kOwn},
        {"text_regression", "fp16", "lamb", false, Kernels::kAten}}) {
    Watched roberta{ConfigOf(task, "roberta", precision, optimizer), kernels};
    roberta.config.text.unpad = unpad;
    EXPECT_EQ(ForbiddenIn(roberta), kNothing) << task;
  }
  for (const bool unpad : {false, true}) {
    Watched modernbert{ConfigOf("masked_lm", "modernbert", "bf16", "adamw"), Kernels::kOwn};
    modernbert.config.text.unpad = unpad;
    EXPECT_EQ(ForbiddenIn(modernbert), kNothing) << unpad;
  }
}

// What this file would not let pass.
TEST(StepOperators, WhatWaitsIsFound) {
  const at::Tensor x = at::tensor({3.0F, 0.0F, 4.0F}), mask = x.gt(0);
  data::Batch host;
  host.on_host["index"] = at::arange(3);
  using Work = std::function<void()>;
  for (const auto& [work, wanted] : std::vector<std::pair<Work, std::string>>{
           {[&] { x.sum().item<float>(); }, "aten::_local_scalar_dense is not"},
           {[&] { at::nonzero(x); }, "aten::nonzero is not"},
           {[&] { x.index({mask}); }, "aten::index is not"},
           {[&] { x.masked_select(mask); }, "aten::masked_select is not"},
           {[&] { at::_unique2(x); }, "aten::_unique2 is not"},
           {[&] { at::repeat_interleave(host["index"].clone()); }, "aten::repeat_interleave is not"},
           {[&] { x.equal(x); }, "aten::equal is not"},
           {[&] { x.to(at::Device(at::kCPU)); }, "aten::to copies to a device without non_blocking"},
           {[&] { x.cpu(); }, "aten::to copies to a device without non_blocking"},
           {[&] { x* at::full({3}, 2.0F); }, "aten::full makes a tensor on the host"},
           {[&] { x.index_select(0, host["index"].slice(0, 1)); }, "takes index, which stays on the host"}}) {
    const StepOperators operators(host);
    work();
    const std::string all = testing::PrintToString(operators.forbidden());
    EXPECT_NE(all.find(wanted), std::string::npos) << wanted << " " << all;
  }
}

}  // namespace
}  // namespace dtrain::loop
