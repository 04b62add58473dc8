// A list of ranks as text for a person.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::distributed {

// Writes neighbours as a range, and counts the ranks after the tenth range instead of listing them: a run may have a
// million ranks, and a message must fit into one line.
class RankList {
 public:
  // Ranks must be added in ascending order.
  void Add(int rank);
  int count() const { return count_; }
  std::string Text() const;  // "1, 3, 5-999999 and 7 more"

 private:
  static constexpr size_t kShownRuns = 10;

  std::vector<std::pair<int, int>> runs_;  // the first and last rank of each range of neighbours
  int count_ = 0;
  int unshown_ = 0;  // the number of ranks that are in no range of runs_
};

}  // namespace dtrain::distributed
