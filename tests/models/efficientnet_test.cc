// What tests/interop, which compares logits with torchvision's, does not see.
#include "models/efficientnet.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "models/registry.h"

namespace dtrain::models {
namespace {

// Dropout and drop_path draw anew in each training pass, but not in evaluation. Without them, the model draws nothing.
TEST(EfficientNet, DropsPathsAndFeaturesInTraining) {
  at::set_num_threads(1);  // because threads that wait for each other are slow on a busy machine
  const at::Tensor images = at::rand({4, 3, 32, 32});
  const auto differs = [&images](ImageModel& model) {
    return !at::equal(model.forward(images), model.forward(images));
  };
  for (const char* name : {"efficientnet_b0", "efficientnetv2_s", "convnextv2_atto", "convnext_atto"}) {
    for (const auto& [dropout, drop_path, expected] :
         {std::tuple{0.0, 0.0, false}, {0.5, 0.0, true}, {0.0, 0.9, true}}) {
      const auto model = MakeImageModel(name, {.num_classes = 10, .dropout = dropout, .drop_path = drop_path});
      for (auto& item : model->named_parameters()) {
        if (item.key().ends_with("gamma")) item.value().detach().fill_(1);  // else blocks are hardly seen
      }
      EXPECT_EQ(differs(*model), expected) << name << " " << dropout << " " << drop_path;
      model->eval();
      EXPECT_FALSE(differs(*model));
    }
  }
}

TEST(EfficientNet, CountingLeavesTheModelAsItIs) {
  const auto model = MakeImageModel("efficientnet_b0", {});
  model->Cost(224);
  EXPECT_EQ(model->named_buffers()["features.0.1.num_batches_tracked"].item<int64_t>(), 0);
}

}  // namespace
}  // namespace dtrain::models
