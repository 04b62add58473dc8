#include "trainer/weights/known_classes.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "trainer/weights/text_model.h"

namespace dtrain::weights {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(KnownClasses, TravelAsJsonAndAsMetadata) {
  for (const data::Classes& classes : {data::Classes{{"cat", "a \"dog\"", "\u00e9"}, 3, 1}, data::Classes{{}, 10, 0},
                                       data::Classes{{"x"}, 1, {}}, data::Classes{.pairs = true}, data::Classes{}}) {
    EXPECT_EQ(ClassesFromJson(nlohmann::json::parse(ToJson(classes).dump()), "state.json"), classes);
    checkpoint::Metadata metadata = {{"format", "pt"}};
    AddTo(metadata, classes);
    EXPECT_EQ(ClassesFrom(metadata, "file"), classes);
  }
  EXPECT_EQ(ClassesFromJson(nullptr, "an old state.json"), data::Classes());
  EXPECT_EQ(ClassesFrom({{"format", "pt"}}, "torchvision's file"), data::Classes());
}

TEST(KnownClasses, AreThoseOfHuggingFacesModels) {
  const auto names = [](const std::string& labels) {
    return ClassesFrom({{kModelConfigKey, R"({"id2label": )" + labels + "}"}}, "model.safetensors").names;
  };
  EXPECT_THAT(names(R"({"1": "dog", "0": "cat"})"), ElementsAre("cat", "dog"));
  for (const char* unknown : {R"({"0": "LABEL_0", "1": "LABEL_1"})", R"({"0": "crane", "1": "crane"})",
                              R"({"1": "dog"})", R"(["cat"])", R"({"0": 7})", "{}", "{"}) {
    EXPECT_THAT(names(unknown), ElementsAre()) << unknown;
  }
}

TEST(KnownClasses, SomethingElseIsDamage) {
  for (const char* text :
       {"[]", "7", R"({"class_names":7,"num_classes":1,"label_offset":0})",
        R"({"class_names":[1],"num_classes":1,"label_offset":0})", R"({"class_names":[],"num_classes":1})",
        R"({"class_names":[],"num_classes":-1,"label_offset":0})",
        R"({"class_names":["a"],"num_classes":2,"label_offset":0})",
        R"({"class_names":[],"num_classes":1,"label_offset":1e300})",
        R"({"class_names":[],"num_classes":1,"label_offset":0,"text_pairs":"yes"})"}) {
    EXPECT_ERROR("state.json", ClassesFromJson(nlohmann::json::parse(text), "state.json")) << text;
  }
  EXPECT_ERROR("a.safetensors", ClassesFrom({{"class_names", "[[["}}, "a.safetensors"));
}

TEST(RequireSameNames, NamesTheFirstThatDiffers) {
  const auto message = [](const std::vector<std::string>& names) {
    return MessageOf([&] { RequireSameNames({{"cat", "dog"}, 2, 0}, {names, 2, 0}); });
  };
  EXPECT_EQ(message({"cat", "dog"}), "");
  EXPECT_EQ(message({}), "");  // data without names
  EXPECT_THAT(message({"cat", "eel"}), AllOf(HasSubstr("label 1"), HasSubstr("'dog' then, 'eel' now")));
  EXPECT_THAT(message({"cat"}), HasSubstr("'dog' then, none now"));
  EXPECT_THAT(message({"cat", "dog", "eel"}), HasSubstr("none then, 'eel' now"));
}

TEST(Describe, ShowsTheFirstFewNames) {
  EXPECT_EQ(Describe(data::Classes{{"cat", "dog"}, 2}), "2: cat, dog");
  EXPECT_EQ(Describe(data::Classes{{"a", "b", "c", "d", "e", "f"}, 6}), "6: a, b, c, d, e, …");
  EXPECT_EQ(Describe(data::Classes{{}, 10}), "10, without names");
}

TEST(NumberScale, TravelsAsMetadata) {
  const NumberScale scale = {{1e6, -0.1}, {3e-5, 7}};
  EXPECT_EQ(ScaleFrom({{kNumberScaleKey, ToText(scale)}}, "file"), scale);
  EXPECT_EQ(ScaleFrom({{"format", "pt"}}, "torchvision's file"), NumberScale());
  for (const char* text : {"{", "[]", R"({"means":[1]})", R"({"means":[1],"deviations":[]})",
                           R"({"means":[1],"deviations":[0]})", R"({"means":["1"],"deviations":[1]})"}) {
    EXPECT_ERROR("a.safetensors", ScaleFrom({{kNumberScaleKey, text}}, "a.safetensors")) << text;
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
