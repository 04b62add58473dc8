// The cuts themselves are compared with fairseq's in tests/interop/test_token_blocks.py.
#include "data/text/token_blocks.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/data/text/write_tokens.h"
#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using Block = std::vector<int64_t>;

// A text with lines of these sizes. Its tokens are numbered from 10 on.
class Text {
 public:
  explicit Text(const std::vector<int>& sizes) {
    std::vector<std::vector<uint16_t>> lines;
    uint16_t token = 10;
    for (const int size : sizes) {
      auto& line = lines.emplace_back();
      for (int i = 0; i < size; ++i) line.push_back(token++);
    }
    WriteTokens(folder_, "train", lines);
  }
  TokenBlocks Cut(SampleBreak sample_break, int64_t tokens_per_sample) const {
    return {std::make_unique<TokenDataset>(folder_.path("train")), sample_break, tokens_per_sample};
  }

 private:
  const TemporaryFolder folder_;
};

std::vector<Block> BlocksOf(const TokenBlocks& blocks) {
  std::vector<Block> all;
  for (int64_t i = 0; i < blocks.size(); ++i) {
    const auto bytes = blocks.Read(i);
    Block& block = all.emplace_back(bytes.size() / 2);
    WidenTokens(blocks.type(), bytes, block.data());
    EXPECT_EQ(blocks.length(i), static_cast<int64_t>(block.size()) + 1);
  }
  return all;
}

TEST(TokenBlocks, CompleteTakesWholeLinesWhileTheyFit) {
  // At most 5 tokens fit: 2+3, then 1+1; 6 is too long alone and left out; then 4, and 2 at the end.
  const auto blocks = Text({2, 3, 1, 1, 6, 4, 2}).Cut(SampleBreak::kComplete, 6);
  EXPECT_THAT(BlocksOf(blocks),
              ElementsAre(Block{10, 11, 12, 13, 14}, Block{15, 16}, Block{23, 24, 25, 26}, Block{27, 28}));
  EXPECT_EQ(blocks.too_long(), 1);
}

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
