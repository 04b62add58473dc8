// The cuts themselves are compared with fairseq's in tests/interop/test_token_blocks.py.
#include "data/text/token_blocks.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/data/text/write_tokens.h"
#include "tests/message_of.h"

namespace dtrain::data {
namespace {

// A text with lines of these sizes.
class Text {
 public:
  explicit Text(const std::vector<int>& sizes) {
    std::vector<std::vector<uint16_t>> lines;
    for (const int size : sizes) lines.emplace_back(size, uint16_t{10});
    WriteTokens(folder_, "train", lines);
  }
  TokenBlocks Cut(SampleBreak sample_break, int64_t tokens_per_sample) const {
    return {std::make_unique<TokenDataset>(folder_.path("train")), sample_break, tokens_per_sample};
  }

 private:
  const TemporaryFolder folder_;
};

TEST(TokenBlocks, FingerprintKnowsTheCut) {
  const Text text({2, 3, 1});
  const std::string one = text.Cut(SampleBreak::kComplete, 6).fingerprint();
  EXPECT_EQ(one, text.Cut(SampleBreak::kComplete, 6).fingerprint());
  EXPECT_NE(one, text.Cut(SampleBreak::kComplete, 7).fingerprint());
  EXPECT_NE(one, text.Cut(SampleBreak::kEos, 6).fingerprint());
}

TEST(TokenBlocks, NothingLeftIsAnError) {
  EXPECT_ERROR("2 are longer", Text({4, 5}).Cut(SampleBreak::kComplete, 4));
  EXPECT_ERROR("no block", Text({1, 1, 1}).Cut(SampleBreak::kCompleteDoc, 4));
  EXPECT_THROW(SampleBreakFromName("line"), std::invalid_argument);
}

}  // namespace
}  // namespace dtrain::data
