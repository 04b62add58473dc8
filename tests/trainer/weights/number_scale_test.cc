#include "trainer/weights/number_scale.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/message_of.h"

namespace dtrain::weights {
namespace {

using testing::HasSubstr;

TEST(NumberScale, TravelsAsMetadata) {
  const NumberScale scale = {{1e6, -0.1}, {3e-5, 7}};
  EXPECT_EQ(ScaleFrom({{kNumberScaleKey, ToText(scale)}}, "file"), scale);
  EXPECT_EQ(ScaleFrom({{"format", "pt"}}, "torchvision's file"), NumberScale());
  for (const char* text : {"{", "[]", R"({"means":[1]})", R"({"means":[1],"deviations":[]})",
                           R"({"means":[1],"deviations":[0]})", R"({"means":["1"],"deviations":[1]})"}) {
    EXPECT_THAT(MessageOf([&] {
                  ScaleFrom({{kNumberScaleKey, text}}, "a.safetensors");
                }),
                HasSubstr("a.safetensors"))
        << text;
  }
}

TEST(NumberScale, AChangeLeavesWhatIsPredicted) {
  const NumberScale from = {{10, -3}, {2, 0.5}}, to = {{11, 5}, {4, 0.1}};
  const at::Tensor features = at::rand({5, 3}), weight = at::rand({2, 3}), bias = at::rand({2}), norm = at::rand({3});
  checkpoint::NamedTensors weights = {{"head.norm.weight", norm}, {"head.fc.weight", weight}, {"head.fc.bias", bias}};
  const auto predicted = [&](const NumberScale& scale) {
    return at::linear(features, weights[1].second, weights[2].second) * at::tensor(scale.deviations, at::kFloat) +
           at::tensor(scale.means, at::kFloat);
  };
  const at::Tensor before = predicted(from);
  ChangeScale(from, to, "head", weights);
  EXPECT_TRUE(at::allclose(predicted(to), before, 1e-4, 1e-4));
  EXPECT_TRUE(weights[0].second.equal(norm));
  EXPECT_FALSE(weights[2].second.equal(bias));
  ChangeScale(to, {}, "head", weights);
  EXPECT_TRUE(at::allclose(at::linear(features, weights[1].second, weights[2].second), before, 1e-4, 1e-4));
}

}  // namespace
}  // namespace dtrain::weights
