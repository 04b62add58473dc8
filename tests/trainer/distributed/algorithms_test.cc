#include "trainer/distributed/algorithms.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace dtrain::distributed {
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
  EXPECT_TRUE(context_.deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(context_.deterministicFillUninitializedMemory());
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST_F(AlgorithmsTest, WhatTheUserHasSetForCublasStays) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  ChooseAlgorithms(true);
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
}

TEST_F(AlgorithmsTest, OtherwiseAnyAreTaken) {
  ChooseAlgorithms(false);
  EXPECT_FALSE(context_.benchmarkCuDNN());
  EXPECT_FALSE(context_.deterministicCuDNN());
  EXPECT_FALSE(context_.deterministicAlgorithms());
  EXPECT_EQ(getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
}

}  // namespace
}  // namespace dtrain::distributed
