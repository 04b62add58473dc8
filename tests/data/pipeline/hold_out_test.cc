#include "data/pipeline/hold_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace dtrain::data {
namespace {

// Records with these labels; record i is one byte, i.
class Labelled : public RecordSource {
 public:
  explicit Labelled(std::vector<int64_t> labels) : labels_(std::move(labels)) {}
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t Label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::vector<uint8_t> Read(int64_t index) const override { return {static_cast<uint8_t>(index)}; }
  RecordPlace Place(int64_t index) const override { return {"file-" + std::to_string(index)}; }
  std::string fingerprint() const override { return "these"; }

 private:
  std::vector<int64_t> labels_;
};

// Returns classes of these sizes, with their records mixed.
Labelled Classes(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> labels, left = sizes;
  for (bool any = true; std::exchange(any, false);) {
    for (size_t c = 0; c < left.size(); ++c) {
      if (left[c]-- <= 0) continue;
      labels.push_back(static_cast<int64_t>(c));
      any = true;
    }
  }
  return Labelled(labels);
}

std::map<int64_t, int64_t> CountByClass(const RecordSource& source, const std::vector<int64_t>& positions) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t position : positions) ++counts[source.Label(position)];
  return counts;
}

TEST(HoldOut, EveryClassGivesItsShareAndEachRecordIsInOnePart) {
  const std::vector<int64_t> sizes = {100, 37, 10, 3, 1};
  const Labelled source = Classes(sizes);
  for (const double fraction : {0.1, 0.25, 0.5, 0.9}) {
    const HeldOut parts = HoldOut(source, {.fraction = fraction, .seed = 3});
    EXPECT_NEAR(static_cast<double>(parts.val.size()), fraction * 151, 2) << fraction;  // small classes keep one record
    EXPECT_TRUE(std::ranges::is_sorted(parts.train) && std::ranges::is_sorted(parts.val)) << "in file order";
    std::set<int64_t> all(parts.train.begin(), parts.train.end());
    all.insert(parts.val.begin(), parts.val.end());
    EXPECT_EQ(std::ssize(all), source.size());
    auto val = CountByClass(source, parts.val), train = CountByClass(source, parts.train);
    for (size_t c = 0; c < sizes.size(); ++c) {
      const auto label = static_cast<int64_t>(c);
      EXPECT_NEAR(static_cast<double>(val[label]), fraction * static_cast<double>(sizes[c]), 1.5) << fraction << c;
      EXPECT_GE(train[label], 1) << fraction << " " << c;
      EXPECT_EQ(train[label] + val[label], sizes[c]);
    }
  }
}

TEST(HoldOut, ALargeGroupNeitherFillsThePartNorAFold) {
  std::vector<int64_t> labels(400, 0);  // of one group; then four classes of 20 groups of 20
  std::vector<std::string> groups(400, "large");
  for (int64_t i = 0; i < 1600; ++i) {
    labels.push_back(i / 400);
    groups.push_back(std::to_string(i / 20));
  }
  const Labelled source(labels);
  for (int64_t seed = 0; seed < 5; ++seed) {
    const HeldOut part = HoldOut(source, {.fraction = 0.1, .seed = seed, .groups = groups});
    EXPECT_NEAR(static_cast<double>(part.val.size()), 200, 20) << seed;
    EXPECT_EQ(CountByClass(source, part.val).size(), 4U) << seed;
    for (int64_t fold = 1; fold <= 5; ++fold) {
      const HeldOut parts = HoldOut(source, {.seed = seed, .fold = fold, .folds = 5, .groups = groups});
      auto val = CountByClass(source, parts.val);
      for (int64_t label = 1; label < 4; ++label) EXPECT_EQ(val[label], 80) << seed << fold;
    }
  }
}

TEST(HoldOut, WhatHasNoClassesIsOneClass) {
  const Labelled source(std::vector<int64_t>(30, -1));
  EXPECT_EQ(HoldOut(source, {.fraction = 0.1, .seed = 0}).val.size(), 3U);
  EXPECT_TRUE(HoldOut(Labelled({0, 1, 2}), {.fraction = 0.5, .seed = 0}).val.empty());  // a class needs two records
  EXPECT_TRUE(HoldOut(Labelled({0, 0, 0}), {.fraction = 0.1, .seed = 0}).val.empty());
}

TEST(Subset, IsTheRecordsAtItsPositions) {
  const auto source = std::make_shared<const Labelled>(Classes({3, 3}));
  const Subset part(source, {1, 4});
  ASSERT_EQ(part.size(), 2);
  EXPECT_EQ(part.Read(1), std::vector<uint8_t>{4});
  EXPECT_EQ(part.Label(0), source->Label(1));
  EXPECT_EQ(part.Location(1), "file-4");
  EXPECT_EQ(part.PositionOf(1), 4);
  // Another subset of the same data has another fingerprint.
  EXPECT_EQ(part.fingerprint(), Subset(source, {1, 4}).fingerprint());
  EXPECT_NE(part.fingerprint(), Subset(source, {1, 5}).fingerprint());
  EXPECT_NE(part.fingerprint(), source->fingerprint());
}

}  // namespace
}  // namespace dtrain::data
