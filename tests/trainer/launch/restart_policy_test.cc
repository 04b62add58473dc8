#include "trainer/launch/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::launch {
namespace {

using testing::HasSubstr;

TEST(RestartPolicy, NoneUnlessAsked) {
  RestartPolicy policy(0);
  EXPECT_FALSE(policy.AfterFailure(4, 10).restart);
}

TEST(RestartPolicy, SomeFailuresWouldComeAgain) {
  for (const int code : {0, 2, 3, 6, 75}) EXPECT_FALSE(RestartPolicy(5).AfterFailure(code, 10).restart) << code;
  for (const int code : {1, 4, 5, 7, 70}) EXPECT_TRUE(RestartPolicy(5).AfterFailure(code, 10).restart) << code;
}

TEST(RestartPolicy, AsOftenAsAllowed) {
  RestartPolicy policy(2);
  EXPECT_TRUE(policy.AfterFailure(4, 10).restart);
  EXPECT_TRUE(policy.AfterFailure(4, 20).restart);
  const auto verdict = policy.AfterFailure(4, 30);
  EXPECT_FALSE(verdict.restart);
  EXPECT_THAT(verdict.reason, HasSubstr("--max_restarts=2 are used up, at step 30"));
}

TEST(RestartPolicy, ThreeRestartsWithoutProgressEndTheRun) {
  RestartPolicy policy(100);
  EXPECT_TRUE(policy.AfterFailure(4, 7).restart);   // the first attempt
  EXPECT_TRUE(policy.AfterFailure(4, 12).restart);  // got further
  EXPECT_TRUE(policy.AfterFailure(4, 12).restart);
  EXPECT_TRUE(policy.AfterFailure(4, 11).restart);
  const auto verdict = policy.AfterFailure(4, 12);
  EXPECT_FALSE(verdict.restart);
  EXPECT_THAT(verdict.reason, HasSubstr("3 restarts in a row made no progress; the run ends at step 12"));
  EXPECT_EQ(policy.restarts(), 4);
}

TEST(RestartPolicy, BeforeTrainingBegins) {
  RestartPolicy policy(100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(policy.AfterFailure(70, -1).restart);
  EXPECT_THAT(policy.AfterFailure(70, -1).reason, HasSubstr("the run ends before training began"));
}

}  // namespace
}  // namespace dtrain::launch
