// Numbers of ranks as a person reads them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::distributed {

// "1, 3, 5-999999", and of many only the first: a run may have a million ranks, and a message goes into one line.
class RankList {
 public:
  // In ascending order.
  void Add(int rank);
  int count() const { return count_; }
  std::string Text() const;

 private:
  static constexpr size_t kShownRuns = 10;

  std::vector<std::pair<int, int>> runs_;  // of neighbours: first and last
  int count_ = 0;
  int unshown_ = 0;
};

}  // namespace dtrain::distributed
