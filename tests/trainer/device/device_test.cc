#include "trainer/device/device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

namespace dtrain::device {
namespace {

class AlgorithmsTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("CUBLAS_WORKSPACE_CONFIG"); }
  void TearDown() override {
    ChooseAlgorithms(false);
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
  }
  const at::Context& context_ = at::globalContext();
};

TEST_F(AlgorithmsTest, DeterministicOnesAreNotChosenByTheClock) {
  ChooseAlgorithms(true);
  EXPECT_FALSE(context_.benchmarkCuDNN());
  EXPECT_TRUE(context_.deterministicCuDNN());
  EXPECT_TRUE(context_.deterministicAlgorithms());
  EXPECT_FALSE(context_.deterministicAlgorithmsWarnOnly());  // else attention on a GPU would add in varying order
  EXPECT_FALSE(context_.deterministicFillUninitializedMemory());
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST_F(AlgorithmsTest, OthersRunWhereAModelNeedsThemOrNobodyAsks) {
  ChooseAlgorithms(true, /*tolerates_others=*/true);
  EXPECT_TRUE(context_.deterministicAlgorithms());
  EXPECT_TRUE(context_.deterministicAlgorithmsWarnOnly());
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  ChooseAlgorithms(false);
  EXPECT_FALSE(context_.benchmarkCuDNN());
  EXPECT_FALSE(context_.deterministicCuDNN());
  EXPECT_FALSE(context_.deterministicAlgorithms());
  EXPECT_EQ(getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
}

TEST_F(AlgorithmsTest, WhatTheUserHasSetForCublasStaysIfItIsDeterministic) {
  for (const auto& [given, taken] : {std::pair{":16:8", ":16:8"}, {":4096:2:16:8", ":4096:8"}}) {
    setenv("CUBLAS_WORKSPACE_CONFIG", given, 1);
    ChooseAlgorithms(true);
    EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), taken);
  }
}

}  // namespace
}  // namespace dtrain::device
