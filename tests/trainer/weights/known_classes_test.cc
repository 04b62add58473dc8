#include "trainer/weights/known_classes.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"

namespace dtrain::weights {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(KnownClasses, TravelAsJsonAndAsMetadata) {
  for (const data::Classes& classes : {data::Classes{{"cat", "a \"dog\"", "\u00e9"}, 3, 1}, data::Classes{{}, 10, 0},
                                       data::Classes{{"x"}, 1, {}}, data::Classes{}}) {
    EXPECT_EQ(ClassesFromJson(nlohmann::json::parse(ToJson(classes).dump()), "state.json"), classes);
    checkpoint::Metadata metadata = {{"format", "pt"}};
    AddTo(metadata, classes);
    EXPECT_EQ(ClassesFrom(metadata, "file"), classes);
  }
  EXPECT_EQ(ClassesFromJson(nullptr, "an old state.json"), data::Classes());
  EXPECT_EQ(ClassesFrom({{"format", "pt"}}, "torchvision's file"), data::Classes());
}

TEST(KnownClasses, SomethingElseIsDamage) {
  for (const char* text :
       {"[]", "7", R"({"class_names":7,"num_classes":1,"label_offset":0})",
        R"({"class_names":[1],"num_classes":1,"label_offset":0})", R"({"class_names":[],"num_classes":1})",
        R"({"class_names":[],"num_classes":-1,"label_offset":0})",
        R"({"class_names":["a"],"num_classes":2,"label_offset":0})",
        R"({"class_names":[],"num_classes":1,"label_offset":1e300})"}) {
    EXPECT_THAT(MessageOf([&] { ClassesFromJson(nlohmann::json::parse(text), "state.json"); }), HasSubstr("state.json"))
        << text;
  }
  EXPECT_THAT(MessageOf([] { ClassesFrom({{"class_names", "[[["}}, "a.safetensors"); }), HasSubstr("a.safetensors"));
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

TEST(RequireSameNames, NamesThatAreNoUtf8AreComparedAsTheyAreKept) {
  const data::Classes now{{"caf\xe9"}, 1, 0};
  EXPECT_EQ(MessageOf([&] { RequireSameNames({AsKept(now.names), 1, 0}, now); }), "");
}

TEST(Describe, ShowsTheFirstFewNames) {
  EXPECT_EQ(Describe(data::Classes{{"cat", "dog"}, 2}), "2: cat, dog");
  EXPECT_EQ(Describe(data::Classes{{"a", "b", "c", "d", "e", "f"}, 6}), "6: a, b, c, d, e, …");
  EXPECT_EQ(Describe(data::Classes{{}, 10}), "10, without names");
}

}  // namespace
}  // namespace dtrain::weights
