#include "data/text/masking.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

#include "data/text/dictionary.h"

namespace dtrain::data {
namespace {

constexpr int64_t kVocabulary = 1004, kMask = 1003;

struct Masked {
  std::vector<int64_t> original, tokens, labels;

  int64_t Drawn() const {
    return std::count_if(labels.begin(), labels.end(), [](int64_t label) { return label != kNoLoss; });
  }
};

// Masks a sample of <s>, words with ids from 100 on, and </s>.
Masked Mask(const MaskingOptions& options, int64_t sample, int64_t length, int64_t epoch = 0) {
  Masked masked;
  masked.original.assign(static_cast<size_t>(length), 0);
  std::iota(masked.original.begin(), masked.original.end(), 99);
  masked.original.front() = kBeginToken;
  masked.original.back() = kEndToken;
  masked.tokens = masked.original;
  masked.labels.resize(masked.tokens.size());
  Masking(options).Mask(epoch, sample, 0, masked.tokens, masked.labels);
  for (size_t i = 0; i < masked.labels.size(); ++i) {
    if (masked.labels[i] == kNoLoss) {
      EXPECT_EQ(masked.tokens[i], masked.original[i]);
    } else {
      EXPECT_EQ(masked.labels[i], masked.original[i]);
    }
  }
  return masked;
}

MaskingOptions Options() { return {.vocabulary = kVocabulary, .special = {.mask = kMask}, .seed = 5}; }

// Expects `hits` within five standard deviations of the mean of `trials` draws.
void ExpectShare(int64_t hits, int64_t trials, double share) {
  const auto n = static_cast<double>(trials);
  EXPECT_NEAR(static_cast<double>(hits) / n, share, 5 * std::sqrt(share * (1 - share) / n));
}

TEST(Masking, FollowsTheLaw) {
  constexpr int64_t kLength = 50, kSamples = 20'000;  // 15 % are 7.5 tokens per sample: 7 or 8
  int64_t of_seven = 0, drawn = 0, masked = 0, kept = 0;
  std::map<int64_t, int64_t> random_words;
  std::vector<int64_t> at(kLength);
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const Masked m = Mask(Options(), sample, kLength);
    ASSERT_TRUE(m.Drawn() == 7 || m.Drawn() == 8);
    of_seven += m.Drawn() == 7;
    for (size_t i = 0; i < m.labels.size(); ++i) {
      if (m.labels[i] == kNoLoss) continue;
      ++drawn;
      ++at[i];
      if (m.tokens[i] == kMask) {
        ++masked;  // includes random words that happen to be <mask>
      } else if (m.tokens[i] == m.original[i]) {
        ++kept;
      } else {
        ++random_words[m.tokens[i]];
      }
    }
  }
  const int64_t random = drawn - masked - kept;
  ExpectShare(of_seven, kSamples, 0.5);
  ExpectShare(masked, drawn, 0.8 + 0.1 / 1000);
  ExpectShare(kept, drawn, 0.1 + 0.1 / 1000);
  ExpectShare(random, drawn, 0.1 - 0.2 / 1000);
  EXPECT_GE(random_words.begin()->first, kSpecialTokens);
  EXPECT_LT(random_words.rbegin()->first, kVocabulary);
  EXPECT_EQ(random_words.size(), 999U);  // every word except <mask>
  EXPECT_EQ(at.front() + at.back(), 0);
  for (size_t i = 1; i + 1 < at.size(); ++i) ExpectShare(at[i], kSamples, 7.5 / 48);
}

TEST(Masking, SpecialsToo) {
  MaskingOptions options = Options();
  options.special_tokens = true;
  int64_t first = 0, last = 0;
  for (int64_t sample = 0; sample < 5000; ++sample) {
    const Masked m = Mask(options, sample, 20);
    EXPECT_EQ(m.Drawn(), 3);
    first += m.labels.front() != kNoLoss;
    last += m.labels.back() != kNoLoss;
  }
  ExpectShare(first, 5000, 0.15);
  ExpectShare(last, 5000, 0.15);
}

TEST(Masking, DependsOnWhatItIsFor) {
  const Masked one = Mask(Options(), 3, 200);
  EXPECT_EQ(one.tokens, Mask(Options(), 3, 200).tokens);
  EXPECT_NE(one.tokens, Mask(Options(), 4, 200).tokens);
  EXPECT_NE(one.tokens, Mask(Options(), 3, 200, 1).tokens);
  MaskingOptions other = Options();
  other.seed = 6;
  EXPECT_NE(one.tokens, Mask(other, 3, 200).tokens);
}

TEST(Masking, WholeWordsShareTheirFate) {
  MaskingOptions options = Options();
  std::vector<bool> begins(kVocabulary, false);
  for (size_t id = 0; id < begins.size(); id += 3) begins[id] = true;  // words of three tokens
  options.begins_word = std::make_shared<const std::vector<bool>>(begins);
  int64_t words = 0, drawn_words = 0, apart = 0;
  for (int64_t sample = 0; sample < 2000; ++sample) {
    const Masked m = Mask(options, sample, 62);
    for (size_t begin = 1; begin + 1 < m.labels.size();) {
      size_t end = begin + 1;
      while (end + 1 < m.labels.size() && !begins[static_cast<size_t>(m.original[end])]) ++end;
      ++words;
      drawn_words += m.labels[begin] != kNoLoss;
      for (size_t i = begin; i < end; ++i) {
        EXPECT_EQ(m.labels[i] == kNoLoss, m.labels[begin] == kNoLoss);
        apart += (m.tokens[i] == kMask) != (m.tokens[begin] == kMask);
      }
      begin = end;
    }
  }
  EXPECT_LE(apart, 12);  // one in a thousand of 1,800 random tokens is <mask>
  // 15 % of the words and special tokens are drawn, but all of the drawn ones are words.
  ExpectShare(drawn_words, words, 0.15 * static_cast<double>(words / 2000 + 2) / static_cast<double>(words / 2000));
}

TEST(Masking, AllTablesHaveOneVocabulary) {
  const auto begins = [](size_t size) { return std::make_shared<const std::vector<bool>>(size, true); };
  const MaskingOptions smallest{.vocabulary = 5, .special = {.mask = 4}, .begins_word = begins(5)};
  EXPECT_NO_THROW(Masking{smallest});
  for (MaskingOptions options :
       std::vector<MaskingOptions>{{.vocabulary = 4, .special = {.mask = 3}},
                                   {.vocabulary = 0, .special = {.mask = -1}},
                                   {.vocabulary = 5, .special = {.mask = 5}},
                                   {.vocabulary = 6, .special = {.mask = 4}, .begins_word = begins(5)}}) {
    EXPECT_THROW(Masking{options}, std::invalid_argument) << options.vocabulary;
  }
}

TEST(Masking, ShortSamples) {
  for (int64_t sample = 0; sample < 100; ++sample) {
    std::vector<int64_t> tokens = {kBeginToken, kEndToken}, labels(2);
    Masking(Options()).Mask(0, sample, 0, tokens, labels);
    EXPECT_THAT(labels, testing::Each(kNoLoss));
    Masking(Options()).Mask(0, sample, 0, {}, {});
  }
}

}  // namespace
}  // namespace dtrain::data
