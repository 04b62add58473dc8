// Tests the edit distance and the suggestions that use it.
#include "data/command_line/nearest_name.h"

#include <gtest/gtest.h>

namespace dtrain::command_line {
namespace {

TEST(NearestName, DistanceCountsTypingErrors) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("batch", "batch"), 0);
  EXPECT_EQ(EditDistance("btach", "batch"), 1);  // a swap is one error
  EXPECT_EQ(EditDistance("bach", "batch"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);  // the textbook's example
}

TEST(NearestName, FindsTheNearestOrNone) {
  const std::vector<std::string> names = {"lr", "batch_size", "global_batch_size", "image_size"};
  EXPECT_EQ(NearestName("btach_size", names), "batch_size");
  EXPECT_EQ(NearestName("batchsize", names), "batch_size");
  EXPECT_EQ(NearestName("lrr", names), "lr");
  EXPECT_EQ(NearestName("modle", {"mode", "model"}), "model");  // a swap is preferred to an extra letter
  EXPECT_EQ(NearestName("optimizer", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

TEST(NearestName, Sentence) {
  EXPECT_EQ(DidYouMean("resnet5", {"resnet18", "resnet50"}), "did you mean resnet50?");
  EXPECT_EQ(DidYouMean("lrr", {"lr"}, "--"), "did you mean --lr?");
  EXPECT_EQ(DidYouMean("vit", {"resnet50"}), "");
}

}  // namespace
}  // namespace dtrain::command_line
