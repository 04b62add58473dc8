// A step with a teacher does not wait for the device. Its numbers beside PyTorch's are in
// tests/interop/test_distillation.py.
#include "trainer/tasks/teacher.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "data/pipeline/device_feed.h"
#include "tests/step_operators.h"
#include "tests/temporary_folder.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/tasks/image_task.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::tasks {
namespace {

class TeacherTest : public testing::Test {
 protected:
  static constexpr int64_t kSize = 32, kClasses = 5, kImages = 4;

  TeacherTest() {
    config_.run.task = "image_classification";
    config_.model.name = "efficientnet_b0";
    config_.image.size = kSize;
    config::Config taught = config_;
    taught.batch.seed = 3;
    checkpoint::Metadata metadata;
    weights::AddSettings(metadata, taught);
    config_.teacher.weights = folder_.path() / "teacher.safetensors";
    metadata["step"] = "1";  // as files of a run have
    checkpoint::WriteSafetensors(config_.teacher.weights, weights::StateOf(*MakeModel(taught, kClasses, at::kCPU)),
                                 metadata);
  }

  TemporaryFolder folder_;
  config::Config config_;
};

TEST_F(TeacherTest, AStepWithOneDoesNotWaitForTheDevice) {
  for (const char* distill : {"soft", "hard"}) {
    config_.teacher.distill = distill;
    config_.precision.name = distill == std::string("soft") ? "bf16" : "fp32";
    config_.image.mean = {0.5, 0.5, 0.5};
    config_.image.mixup = 0.2;
    config_.image.size = 2 * kSize;
    config_.model.name = "resnet18";  // the CPU's depthwise convolutions are not the GPU's
    ImageClassificationTask task(MakeModel(config_, kClasses, at::kCPU), {.num_classes = kClasses}, config_, at::kCPU);
    data::Batch host = task.RandomBatch(kImages);
    host.tensors["images"] = at::rand({kImages, 3, 2 * kSize, 2 * kSize});
    const data::Batch batch = data::CopyToDevice(host, at::kCPU);
    const StepOperators operators(host);
    task.Loss(batch).loss_sum.backward();
    EXPECT_EQ(operators.forbidden(), std::set<std::string>{}) << distill;
    for (const at::Tensor& weight : task.teacher()->parameters()) EXPECT_FALSE(weight.grad().defined());
  }
}

TEST_F(TeacherTest, ItsHashFollowsItsWeights) {
  const std::string before = DescribeTeacher(config_);
  EXPECT_EQ(DescribeTeacher(config_), before);
  EXPECT_EQ(before.find("efficientnet_b0 at 32 pixels, mean 0.485,0.456,0.406, std 0.229,0.224,0.225, sha256 "), 0U)
      << before;
  checkpoint::SafetensorsContent content = checkpoint::ReadSafetensors(config_.teacher.weights);
  content.tensors.front().second.view(-1)[0] += 1;
  checkpoint::WriteSafetensors(config_.teacher.weights, content.tensors, content.metadata);
  EXPECT_NE(DescribeTeacher(config_), before);
}

}  // namespace
}  // namespace dtrain::tasks
