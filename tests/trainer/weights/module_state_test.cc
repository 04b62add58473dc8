#include "trainer/weights/module_state.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "models/registry.h"
#include "tests/message_of.h"
#include "trainer/errors.h"

namespace dtrain::weights {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Frozen {
  explicit Frozen(const std::string& freeze, const std::string& name = "resnet18")
      : model(models::MakeImageModel(name, {.num_classes = 3})) {
    config.name = name;
    config.freeze = freeze;
    Freeze(config, models::ClassifierName(name), *model);
  }
  config::ModelConfig config;
  std::shared_ptr<models::ImageModel> model;
};

std::vector<std::string> Learning(const torch::nn::Module& model) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : ParametersOf(model)) names.push_back(name);
  return names;
}

TEST(Freeze, TheBackboneIsAllButTheClassifier) {
  EXPECT_EQ(Learning(*Frozen("backbone").model), (std::vector<std::string>{"fc.weight", "fc.bias"}));
  EXPECT_EQ(Learning(*Frozen("backbone", "efficientnet_b0").model),
            (std::vector<std::string>{"classifier.1.weight", "classifier.1.bias"}));
}

TEST(Freeze, NamesWhatThereIs) {
  const Frozen nothing("");
  const auto said = [&](const std::string& freeze) {
    config::ModelConfig config = nothing.config;
    config.freeze = freeze;
    return MessageAndHint([&] { Freeze(config, "fc", *nothing.model); });
  };
  EXPECT_THAT(said("layer9"),
              AllOf(HasSubstr("no module 'layer9'"), HasSubstr("conv1, bn1, layer1, layer2, layer3, layer4, fc")));
  EXPECT_THAT(said("conv1,layer1.7"), HasSubstr("no module 'layer1.7'"));
  EXPECT_THAT(said("layer"), HasSubstr("no module 'layer'"));  // a prefix of a name is no match
  EXPECT_THAT(said("conv1,,bn1"), HasSubstr("no module ''"));
  EXPECT_THAT(said("backbone,fc"), HasSubstr("left to train"));
}

TEST(CopyInto, FillsChannelsLastTensorsAndRefusesOthers) {
  const at::Tensor source = at::randn({4, 3, 2, 2});
  at::Tensor target = at::zeros({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  CopyInto({{"w", target}}, {{"w", source}});
  EXPECT_TRUE(at::equal(target, source));
  EXPECT_THROW(CopyInto({{"w", target}}, {{"v", source}}), StorageError);
  EXPECT_THROW(CopyInto({{"w", target}}, {{"w", at::zeros({4})}}), StorageError);
  EXPECT_THROW(CopyInto({{"w", target}}, {{"w", source.to(at::kHalf)}}), UsageError);
}

}  // namespace
}  // namespace dtrain::weights
