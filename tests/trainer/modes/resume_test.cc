#include "trainer/modes/resume.h"

#include <gtest/gtest.h>

namespace dtrain::modes {
namespace {

TEST(KeepSamples, ARunOfAnEarlierVersionHeldOutWhatItsSeedSaidAndTurnedNoPhotograph) {
  nlohmann::json state = {{"run", {{"seed", 42}, {"val_fraction", 0.1}}}, {"config", {{"seed", 42}}}};
  config::Config config;
  config.batch.seed = 42;
  KeepSamples(state, config);
  EXPECT_EQ(config.data.split_seed, 42);
  EXPECT_FALSE(config.image.exif_orientation);
  EXPECT_EQ(state["run"],
            nlohmann::json({{"seed", 42}, {"val_fraction", 0.1}, {"split_seed", 42}}));  // for RequireSameRun
}

TEST(KeepSamples, WhatTheRunBeganWithNeedNotBeGivenAgain) {
  nlohmann::json state = {{"run", {{"seed", 42}, {"split_seed", 3}}}, {"config", {{"exif_orientation", true}}}};
  config::Config config;
  KeepSamples(state, config);
  EXPECT_EQ(config.data.split_seed, 3);
  EXPECT_TRUE(config.image.exif_orientation);
  config = {};
  config.given = {"split_seed", "exif_orientation"};
  config.data.split_seed = 5;
  config.image.exif_orientation = false;
  KeepSamples(state, config);
  EXPECT_EQ(config.data.split_seed, 5);
  EXPECT_FALSE(config.image.exif_orientation);
}

}  // namespace
}  // namespace dtrain::modes
