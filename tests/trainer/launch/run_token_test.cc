#include "trainer/launch/run_token.h"

#include <gtest/gtest.h>

namespace dtrain::launch {
namespace {

TEST(RunToken, IsTheFlagsOrElseTheEnvironments) {
  config::RanksConfig ranks;
  EXPECT_EQ(GivenToken(ranks, {}), "");
  EXPECT_EQ(GivenToken(ranks, {{"DTRAIN_RUN_TOKEN", "secret"}}), "secret");
  ranks.run_token = "flag";
  EXPECT_EQ(GivenToken(ranks, {{"DTRAIN_RUN_TOKEN", "secret"}}), "flag");
  EXPECT_EQ(DetectLaunch({}, {{"DTRAIN_RUN_TOKEN", "secret"}}, {}).token, "secret");
}

TEST(RunToken, RandomOnesAreLongAndDiffer) {
  EXPECT_EQ(RandomToken().size(), 32U);
  EXPECT_NE(RandomToken(), RandomToken());
}

TEST(RunToken, ProofsDependOnTheTokenAndOnEachPart) {
  // Computed with Python's hmac, of the message "2:ab".
  EXPECT_EQ(Proof("Jefe", {"ab"}), "d4c366f44382d10205dd943f94fe06c82be69decf622481ae4f8119355dc5461");
  EXPECT_NE(Proof("a", {"x"}), Proof("b", {"x"}));
  EXPECT_NE(Proof("a", {"ab", "c"}), Proof("a", {"a", "bc"}));
  EXPECT_NE(Proof("a", {"ab"}), Proof("a", {"ab", ""}));
  EXPECT_TRUE(SameProof(Proof("", {}), Proof("", {})));
  EXPECT_FALSE(SameProof(Proof("", {}), ""));
}

}  // namespace
}  // namespace dtrain::launch
