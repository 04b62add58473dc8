// A training step of images must not wait for the device. Also tests metrics, confusions and the padded stem.
#include "trainer/tasks/image_task.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <opencv2/core/mat.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/image/codecs.h"
#include "data/pipeline/device_feed.h"
#include "models/registry.h"
#include "tests/step_operators.h"
#include "trainer/tasks/image_mix.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kSize = 32, kClasses = 5, kImages = 4;

config::Config ConfigOf() {
  config::Config config;
  config.model.name = "resnet18";
  config.image.size = kSize;
  return config;
}

ImageClassificationTask TaskOf(const config::Config& config) {
  return {MakeModel(config, kClasses, at::kCPU), {.num_classes = kClasses}, config, at::kCPU};
}

TEST(ImageTask, AStepDoesNotWaitForTheDevice) {
  for (const std::string name : {"image_classification", "image_multilabel", "image_regression"}) {
    config::Config config = ConfigOf();
    config.run.task = name;
    config.image.mixup = config.image.cutmix = 0.2;
    config.optimizer.label_smoothing = 0.1;
    const auto task = KindOf(config).MakeTask(
        config, {.num_classes = kClasses, .scale = {{1, 2, 3, 4, 5}, {1, 1, 1, 2, 2}}}, at::kCPU);
    task->CountConfusions();
    task->UseClassWeights(at::arange(1, kClasses + 1, at::kFloat));
    data::Batch host = task->RandomBatch(kImages);
    host.tensors["images"] = at::rand({kImages, 3, kSize, kSize});  // bytes are prepared by a kernel for the CPU
    const data::Batch batch = data::CopyToDevice(host, at::kCPU);
    const StepOperators operators(host);
    task->Loss(batch).loss_sum.backward();
    const at::NoGradGuard no_grad;
    task->EvaluationSums(batch);
    EXPECT_EQ(operators.forbidden(), std::set<std::string>{}) << name;
  }
}

TEST(ImageTask, AFamilySaysWhetherItPoolsMaxima) {
  for (const models::Family& family : models::Families()) {
    if (family.input != models::Input::kImages) continue;
    config::Config config = ConfigOf();
    config.model.name = family.models.front().name;
    ImageClassificationTask task = TaskOf(config);
    const data::Batch batch = task.RandomBatch(kImages);
    const StepOperators operators;
    task.Loss(batch).loss_sum.backward();
    EXPECT_EQ(operators.PoolsMaxima(), family.pools_maxima) << family.name;
  }
}

TEST(ImageTask, CountsWhichClassIsTakenForWhich) {
  ImageClassificationTask task = TaskOf(ConfigOf());
  task.CountConfusions();
  task.module().eval();
  const at::NoGradGuard no_grad;
  std::vector<int64_t> expected(kClasses * kClasses);
  at::Tensor sums = at::zeros({task.num_evaluation_sums()}, at::kDouble);
  int64_t right = 0;
  for (int batch_number = 0; batch_number < 3; ++batch_number) {
    const data::Batch batch = task.RandomBatch(kImages);
    sums += task.EvaluationSums(batch);
    const at::Tensor predicted = task.Logits(batch["images"]).argmax(1);
    for (int64_t i = 0; i < kImages; ++i) {
      const auto label = batch["labels"][i].item<int64_t>(), guess = predicted[i].item<int64_t>();
      ++expected[static_cast<size_t>(label * kClasses + guess)];
      right += label == guess;
    }
  }
  EXPECT_EQ(task.ConfusionsOf(sums), expected);
  // The metrics are the same as without confusions.
  const report::Metrics metrics = task.MetricsOf(sums);
  EXPECT_DOUBLE_EQ(metrics[0].value, 100.0 * static_cast<double>(right) / (3 * kImages));
  ImageClassificationTask plain = TaskOf(ConfigOf());
  EXPECT_EQ(plain.num_evaluation_sums(), 4);
  EXPECT_TRUE(plain.ConfusionsOf(at::zeros({4}, at::kDouble)).empty());
}

// Where all classes are equally likely, the first one is taken: by metrics, and for the files of predictions.
TEST(ImageTask, OfEqualClassesTheFirstIsTaken) {
  ImageClassificationTask task = TaskOf(ConfigOf());
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : task.module().parameters()) parameter.zero_();
  task.CountConfusions();
  const std::vector<int64_t> confusions = task.ConfusionsOf(task.EvaluationSums(task.RandomBatch(kImages)));
  for (size_t cell = 0; cell < confusions.size(); ++cell) EXPECT_TRUE(confusions[cell] == 0 || cell % kClasses == 0);
  const at::Tensor logits = at::tensor({1.0, 3.0, 2.0, 3.0, 3.0, 1.0}).unsqueeze(0);
  EXPECT_TRUE(LikeliestClasses(logits, 5).equal(at::tensor(std::vector<int64_t>{1, 3, 4, 2, 0}).unsqueeze(0)));
}

TEST(ImageTask, TrainingCountsItsHits) {
  config::Config config = ConfigOf();
  ImageClassificationTask task = TaskOf(config);
  task.module().eval();  // so that both passes give the same logits
  const data::Batch batch = task.RandomBatch(kImages);
  const auto right = task.Logits(batch["images"]).argmax(1).eq(batch["labels"]).sum().item<int64_t>();
  EXPECT_EQ(task.Loss(batch).hits.item<int64_t>(), right);
  EXPECT_EQ(task.TrainingMetrics(3, 4).at(0).name, "top1");
  EXPECT_DOUBLE_EQ(task.TrainingMetrics(3, 4).at(0).value, 75);
  config.image.mixup = 0.2;  // an image belongs to two classes
  ImageClassificationTask mixing = TaskOf(config);
  EXPECT_FALSE(mixing.Loss(mixing.RandomBatch(kImages)).hits.defined());
  EXPECT_TRUE(TaskOf(config).TrainingMetrics(3, 4).empty());
}

TEST(ImageTask, PicturesAreWhatTheNetworkSees) {
  config::Config config = ConfigOf();
  const ImageClassificationTask task = TaskOf(config);
  data::Batch batch = task.RandomBatch(kImages);
  EXPECT_TRUE(at::equal(task.Pictures(batch), batch["images"]));
  config.image.mixup = 1;
  const ImageClassificationTask mixing = TaskOf(config);
  MixBatches(config)(batch);
  const at::Tensor mixed = mixing.Pictures(batch);
  EXPECT_EQ(mixed.sizes(), batch["images"].sizes());
  EXPECT_FALSE(at::equal(mixed, batch["images"]));
}

cv::Mat Decoded(const report::Picture& picture) {
  return data::DecodeImage({reinterpret_cast<const uint8_t*>(picture.png.data()), picture.png.size()});
}

TEST(PictureGrid, PutsImagesInRows) {
  const at::Tensor images = at::arange(1, 11).view({10, 1, 1, 1}).mul(20).expand({10, 3, 5, 3}).to(at::kByte);
  const report::Picture picture = PictureGrid(images);
  EXPECT_EQ(picture.width, 8 * 5 + 7 * 2);
  EXPECT_EQ(picture.height, 2 * 3 + 2);
  const cv::Mat pixels = Decoded(picture);
  ASSERT_EQ(pixels.cols, picture.width);
  ASSERT_EQ(pixels.rows, picture.height);
  const auto at = [&](int x, int y) { return static_cast<int>(pixels.at<cv::Vec3b>(y, x)[0]); };
  EXPECT_EQ(at(0, 0), 20);
  EXPECT_EQ(at(4, 2), 20);
  EXPECT_EQ(at(5, 0), 0);  // the gap
  EXPECT_EQ(at(7, 0), 40);
  EXPECT_EQ(at(0, 5), 9 * 20);  // an image in the second row
  EXPECT_EQ(at(53, 7), 0);      // no image there
}

TEST(PictureGrid, HasSixtyFourAtMost) {
  EXPECT_EQ(PictureGrid(at::zeros({100, 4, 4, 3}, at::kByte)).height, 8 * 4 + 7 * 2);
  const report::Picture one = PictureGrid(at::full({1, 4, 6, 3}, 7, at::kByte));
  EXPECT_EQ(one.width, 6);
  EXPECT_EQ(one.height, 4);
}

}  // namespace
}  // namespace dtrain::tasks
