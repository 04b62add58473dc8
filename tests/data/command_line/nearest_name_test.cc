#include "data/command_line/parser.h"

#include <gtest/gtest.h>

namespace dtrain::command_line {
namespace {

TEST(NearestName, FindsTheNearestOrNone) {
  const std::vector<std::string> names = {"lr", "batch_size", "global_batch_size", "image_size"};
  EXPECT_EQ(DidYouMean("btach_size", names), "did you mean batch_size?");
  EXPECT_EQ(DidYouMean("batchsize", names), "did you mean batch_size?");
  EXPECT_EQ(DidYouMean("lrr", names, "--"), "did you mean --lr?");
  EXPECT_EQ(DidYouMean("modle", {"mode", "model"}), "did you mean model?");  // a swap is preferred to an extra letter
  EXPECT_EQ(DidYouMean("optimizer", names), "");
  EXPECT_EQ(DidYouMean("", names), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
}

}  // namespace
}  // namespace dtrain::command_line
