// Compares steps that StepGraph records and replays with the same steps without it: losses, weights, their average,
// optimizer and running statistics bit for bit, with another learning rate in each step, dropout, mixed images, batches
// of several shapes, a step that is skipped, weights that are loaded and an evaluation between steps, and a recording
// that fails. Also compares steps with half copies of the weights with those in which autocast casts the weights.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "data/pipeline/device_feed.h"
#include "models/registry.h"
#include "tests/modernbert.h"
#include "tests/small_masked_lm.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/loop/step_computation.h"
#include "trainer/loop/step_graph.h"
#include "trainer/optim/weight_average.h"
#include "trainer/tasks/image_mix.h"
#include "trainer/tasks/image_task.h"
#include "trainer/weights/module_state.h"

namespace dtrain::loop {
namespace {

constexpr int64_t kSteps = 16, kSkippedStep = 7, kShortStep = 9, kRows = 8, kSize = 64, kClasses = 10;
constexpr int64_t kLoadedStep = 11, kEvaluatedStep = 13;  // these come before the step
constexpr tasks::SmallMaskedLm kSmallText{.words = 500, .longest = 40, .width = 128, .dropout = 0.1};
// Backward passes of attention add up a sum for each 128 or so of the tokens: of more than two, the order shows.
constexpr tasks::SmallMaskedLm kLongText{.words = 500, .longest = 512, .width = 128, .dropout = 0.1};

// Calls `fail` at the end of the work that is recorded.
class FailingGraphs : public device::DeviceGraphs {
 public:
  FailingGraphs(std::unique_ptr<DeviceGraphs> graphs, Work fail) : graphs_(std::move(graphs)), fail_(std::move(fail)) {}
  void Run(const Work& work) override { graphs_->Run(work); }
  Work Record(const Work& work) override {
    return graphs_->Record([&] {
      work();
      fail_();
    });
  }
  bool HasRoom() override { return graphs_->HasRoom(); }

 private:
  std::unique_ptr<DeviceGraphs> graphs_;
  Work fail_;
};

struct Training {
  config::Config config;
  std::function<std::unique_ptr<tasks::Task>(at::Device gpu)> make_task;
  std::vector<data::Batch> batches = {};  // on the host and not yet prepared, in turn one for each micro-step
  bool seeds_each_step = true;            // otherwise only the first, and the draws go on from step to step
  int64_t micro_steps = 1;
  bool copies_weights = true;  // otherwise autocast casts them
};

struct Trained {
  std::vector<at::Tensor> state;
  std::vector<float> losses;
  double skipped = 0;
  int replayed = 0;  // micro-steps
};

class Trainee {
 public:
  Trainee(const Training& training, at::Device gpu)
      : gpu_(gpu),
        task_(training.make_task(gpu)),
        update_(MakeParameterUpdate(UpdateConfig(training), task_->module(), gpu)),
        average_(weights::StateOf(task_->module()), {.decay = 0.9}),
        data_parallel_(weights::ParametersOf(task_->module()), alone_, {.accumulates = training.micro_steps > 1}, {}),
        loss_(at::zeros({}, at::TensorOptions(gpu))),
        skipped_(at::zeros_like(loss_)) {}

  // Without `graphs` steps run as they do with --cuda_graphs=off.
  Trained Train(const Training& training, std::unique_ptr<device::DeviceGraphs> graphs, bool required) {
    std::optional<StepGraph> graph;
    if (graphs) graph.emplace(std::move(graphs), required);
    const at::Tensor rate = at::zeros_like(loss_);
    Trained trained;
    for (int64_t i = 0; i < kSteps * training.micro_steps; ++i) {
      const int64_t step = i / training.micro_steps, micro_step = i % training.micro_steps;
      const data::Batch& rows = training.batches[static_cast<size_t>(i) % training.batches.size()];
      data::Batch batch = data::CopyToDevice(task_->Prepared(rows), gpu_);
      batch.part = {.step = step, .micro_step = micro_step, .micro_steps = training.micro_steps};
      if (i == 0 || training.seeds_each_step) SeedTask(/*seed=*/1, batch.part, gpu_);
      if (i == kLoadedStep) Load();
      if (i == kEvaluatedStep) trained.state.push_back(Evaluate(batch).cpu());
      at::Tensor(rate).fill_(0.1 / static_cast<double>(step + 1));
      const data::StepPart part = batch.part;
      if (graph) {
        graph->Run(batch, [this, part, rate](const data::Batch& given) { Step(given, part, rate); });
      } else {
        Step(batch, part, rate);
      }
      if (part.last()) average_.AfterStep(step + 1);
      trained.losses.push_back(loss_.item<float>());
      if (graph) trained.replayed += graph->replayed();
    }
    trained.skipped = skipped_.item<double>();
    for (const auto& list : {weights::StateOf(task_->module()), update_.State(), average_.tensors()}) {
      for (const auto& [name, tensor] : list) trained.state.push_back(tensor.detach().cpu());
    }
    return trained;
  }

 private:
  static config::Config UpdateConfig(const Training& training) {
    config::Config config = training.config;
    if (!training.copies_weights) config.precision.name = "fp32";
    return config;
  }

  // As if from a file.
  void Load() {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : task_->module().parameters()) parameter.mul_(0.9);
    update_.WeightsChanged();
  }

  at::Tensor Evaluate(const data::Batch& batch) {
    const at::NoGradGuard no_grad;
    const optim::WeightAverage::Scope scope(average_);
    task_->module().eval();
    at::Tensor sums = task_->EvaluationSums(batch);
    task_->module().train();
    return sums;
  }

  void Step(const data::Batch& batch, const data::StepPart& part, const at::Tensor& rate) {
    if (part.first()) data_parallel_.ZeroGradients();
    const tasks::LossSums sums = task_->Loss(batch);
    constexpr double kNominal = 8;
    update_.Scale(sums.loss_sum / kNominal).backward();
    const at::NoGradGuard no_grad;
    loss_.copy_(sums.loss_sum / sums.weight);
    if (!part.last()) return;
    data_parallel_.AfterBackward();
    update_.Apply(data_parallel_.gradients(), rate, kNominal / sums.weight);
    skipped_.add_(update_.skipped());
  }

  at::Device gpu_;
  std::unique_ptr<tasks::Task> task_;
  optim::ParameterUpdate update_;
  optim::WeightAverage average_;
  distributed::Communicator alone_;
  distributed::DataParallel data_parallel_;
  at::Tensor loss_, skipped_;
};

at::Device Gpu(const std::string& model = "roberta") {
  device::ChooseAlgorithms(/*deterministic=*/true, models::FamilyOf(model).pools_maxima);
  return device::DeviceOf(launch::Launch{}, "nccl");
}

Trained WithoutGraphs(const Training& training) {
  const at::Device gpu = Gpu(training.config.model.name);
  return Trainee(training, gpu).Train(training, nullptr, /*required=*/false);
}

Trained Recorded(const Training& training) {
  const at::Device gpu = Gpu(training.config.model.name);
  return Trainee(training, gpu).Train(training, device::LoadCudaPlugin().make_graphs(gpu), /*required=*/true);
}

Trained FailedToRecord(const Training& training, std::function<void()> fail) {
  const at::Device gpu = Gpu(training.config.model.name);
  auto graphs = device::LoadCudaPlugin().make_graphs(gpu);
  return Trainee(training, gpu)
      .Train(training, std::make_unique<FailingGraphs>(std::move(graphs), std::move(fail)), /*required=*/false);
}

void ExpectSame(const Trained& result, const Trained& wanted) {
  EXPECT_EQ(result.skipped, wanted.skipped);
  for (size_t step = 0; step < wanted.losses.size(); ++step) {
    const bool is_number = wanted.losses[step] == wanted.losses[step];
    EXPECT_TRUE(!is_number || result.losses[step] == wanted.losses[step])
        << step << ": " << result.losses[step] << ", not " << wanted.losses[step];
  }
  ASSERT_EQ(result.state.size(), wanted.state.size());
  for (size_t i = 0; i < wanted.state.size(); ++i) {
    EXPECT_TRUE(at::allclose(result.state[i], wanted.state[i], 0, 0, /*equal_nan=*/true)) << i;
  }
}

Training OfImages(const config::Config& config) {
  Training training{.config = config, .make_task = [config](at::Device gpu) -> std::unique_ptr<tasks::Task> {
                      return std::make_unique<tasks::ImageClassificationTask>(tasks::MakeModel(config, kClasses, gpu),
                                                                              tasks::DataSizes{.num_classes = kClasses},
                                                                              config, gpu);
                    }};
  at::manual_seed(5);
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t rows = step == kShortStep ? 3 : kRows;
    data::Batch batch;
    batch.number = step;
    batch.tensors["images"] = at::randn({rows, 3, kSize, kSize});
    if (step == kSkippedStep) batch["images"][0][0][0][0].fill_(std::numeric_limits<float>::infinity());
    batch.tensors["labels"] = at::randint(kClasses, {rows}, at::kLong);
    batch.on_host["index"] = at::arange(rows);
    if (const auto mix = tasks::MixBatches(config)) mix(batch);
    training.batches.push_back(batch);
  }
  return training;
}

config::Config ConfigOf(const char* model, const char* precision, const char* optimizer) {
  config::Config config;
  config.model.name = model;
  config.precision.name = precision;
  config.optimizer.name = optimizer;
  config.optimizer.clip_norm = 1;
  if (config.model.name != "resnet18" && config.model.name != "roberta") config.model.drop_path = 0.2;
  return config;
}

// Every third batch is full, and so of another shape than those with padding.
Training OfText(const char* precision, bool seeds_each_step, bool unpad = false,
                const tasks::SmallMaskedLm& text = kSmallText) {
  Training training{.config = ConfigOf("roberta", precision, "adamw"),
                    .make_task = [precision, unpad, text](at::Device gpu) -> std::unique_ptr<tasks::Task> {
                      return std::make_unique<tasks::MaskedLmTask>(text.Task(gpu, unpad, precision));
                    },
                    .seeds_each_step = seeds_each_step};
  for (int64_t step = 0; step < kSteps; ++step) {
    training.batches.push_back(text.Rows(step % 3 == 2
                                             ? std::vector<int64_t>(5, text.longest)
                                             : std::vector<int64_t>{text.longest, text.longest - 39 + step, 17, 0, 8}));
  }
  return training;
}

class CudaGraphs : public testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(CudaGraphs, RecordedStepsHaveTheSameBits) {
  const auto [model, precision, optimizer] = GetParam();
  const Training training = OfImages(ConfigOf(model, precision, optimizer));
  const Trained wanted = WithoutGraphs(training), result = Recorded(training);
  // fp16 skips the first steps, too, until its scale is low enough.
  EXPECT_GE(wanted.skipped, 1);
  EXPECT_TRUE(std::string(precision) == "fp16" || wanted.skipped == 1) << wanted.skipped;
  EXPECT_EQ(result.replayed, kSteps - StepGraph::kWarmUpSteps - 1);
  ExpectSame(result, wanted);
}

INSTANTIATE_TEST_SUITE_P(All, CudaGraphs,
                         testing::Values(std::tuple{"resnet18", "fp32", "sgd"}, std::tuple{"resnet18", "fp16", "sgd"},
                                         std::tuple{"resnet18", "bf16", "adamw"},
                                         std::tuple{"efficientnet_b0", "bf16", "sgd"},
                                         std::tuple{"vit_tiny_patch16_224", "fp16", "adamw"},
                                         std::tuple{"deit3_small_patch16_224", "bf16", "adamw"},
                                         std::tuple{"convnext_atto", "bf16", "adamw"}));

TEST(StepGraphs, MixedImagesHaveTheSameBits) {
  for (const auto& [mixup, cutmix] : {std::pair{0.4, 0.0}, {0.0, 1.0}, {0.4, 1.0}}) {
    config::Config config = ConfigOf("resnet18", "bf16", "sgd");
    config.image.mixup = mixup;
    config.image.cutmix = cutmix;
    const Training training = OfImages(config);
    const Trained result = Recorded(training);
    EXPECT_EQ(result.replayed, kSteps - StepGraph::kWarmUpSteps - 1);
    ExpectSame(result, WithoutGraphs(training));
  }
}

TEST(StepGraphs, TextHasTheSameBitsEachTime) {
  constexpr int kOfTwoShapes = kSteps - 2 * StepGraph::kWarmUpSteps;
  const struct {
    bool seeds_each_step, unpad;
    tasks::SmallMaskedLm text;
    std::optional<int> replayed;
  } cases[] = {{true, false, kSmallText, kOfTwoShapes},
               {false, false, kSmallText, kOfTwoShapes},
               {true, true, kSmallText, 4},  // lists of 72, 80, 88 and 208 tokens come 3, 5, 3 and 5 times
               {true, false, kLongText, {}},
               {true, true, kLongText, {}}};
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    for (const auto& c : cases) {
      SCOPED_TRACE(testing::Message() << precision << " " << c.seeds_each_step << c.unpad << " " << c.text.longest);
      const Training training = OfText(precision, c.seeds_each_step, c.unpad, c.text);
      const Trained wanted = WithoutGraphs(training), recorded = Recorded(training);
      ExpectSame(WithoutGraphs(training), wanted);
      EXPECT_EQ(recorded.replayed, c.replayed.value_or(std::max(1, recorded.replayed)));
      ExpectSame(recorded, wanted);
    }
  }
}

TEST(StepGraphs, AModernBertHasTheSameBits) {
  for (const char* precision : {"bf16", "fp16"}) {
    for (const bool unpad : {false, true}) {
      SCOPED_TRACE(testing::Message() << precision << " " << unpad);
      Training training = OfText(precision, /*seeds_each_step=*/true, unpad);
      training.config.text.tokens_per_sample = kSmallText.longest;
      training.config.text.unpad = unpad;
      training.make_task = [config = training.config](at::Device gpu) -> std::unique_ptr<tasks::Task> {
        at::manual_seed(3);
        auto model = models::SmallModernBert(kSmallText.words, kSmallText.longest, kSmallText.dropout);
        model->to(gpu);
        return std::make_unique<tasks::MaskedLmTask>(std::move(model), config, gpu);
      };
      const Trained wanted = WithoutGraphs(training), recorded = Recorded(training);
      EXPECT_GE(recorded.replayed, 1);
      ExpectSame(recorded, wanted);
    }
  }
}

TEST(StepGraphs, MicroStepsHaveTheSameBits) {
  for (Training training :
       {OfImages(ConfigOf("efficientnet_b0", "bf16", "sgd")), OfImages(ConfigOf("resnet18", "fp16", "lars")),
        OfText("bf16", true), OfText("fp16", true, /*unpad=*/true)}) {
    for (const int64_t micro_steps : {2, 3}) {
      training.micro_steps = micro_steps;
      const Trained result = Recorded(training);
      EXPECT_GT(result.replayed, kSteps / 2);
      ExpectSame(result, WithoutGraphs(training));
    }
  }
}

TEST(StepGraphs, CopiesOfWeightsAreNeverStale) {
  for (const char* precision : {"bf16", "fp16"}) {
    for (Training training :
         {OfImages(ConfigOf("resnet18", precision, "lars")),
          OfImages(ConfigOf("efficientnet_b0", precision, "rmsprop_tf")), OfText(precision, true)}) {
      SCOPED_TRACE(std::string(precision) + " " + training.config.model.name);
      training.config.precision.loss_scale = "64";
      const Trained result = Recorded(training);
      EXPECT_GT(result.replayed, 0);
      training.copies_weights = false;
      ExpectSame(result, WithoutGraphs(training));
    }
  }
}

TEST(StepGraphs, AFailedRecordingLeavesNoTrace) {
  const at::Tensor zero = at::zeros({}, at::TensorOptions(Gpu()));
  const std::vector<std::function<void()>> failures = {
      [&zero] { zero.item<float>(); },                                // waits for the device
      [] { TORCH_CHECK(false, "an error that CUDA does not see"); },  // the capture itself goes on
      [&zero] { at::empty({int64_t{1} << 50}, zero.options()); }};    // out of memory
  for (const Training& training : {OfImages(ConfigOf("efficientnet_b0", "bf16", "sgd")), OfText("fp16", false)}) {
    const Trained wanted = WithoutGraphs(training);
    for (const auto& fail : failures) {
      const Trained result = FailedToRecord(training, fail);
      EXPECT_EQ(result.replayed, 0);
      ExpectSame(result, wanted);
    }
    EXPECT_GT(Recorded(training).replayed, 0);  // the device can still record
  }
}

}  // namespace
}  // namespace dtrain::loop
