#include "trainer/control/rank_list.h"

namespace dtrain::distributed {

void RankList::Add(int rank) {
  ++count_;
  if (unshown_ == 0 && !runs_.empty() && runs_.back().second == rank - 1) {
    runs_.back().second = rank;
  } else if (runs_.size() < kShownRuns) {
    runs_.emplace_back(rank, rank);
  } else {
    ++unshown_;
  }
}

std::string RankList::Text() const {
  std::string text;
  for (const auto& [first, last] : runs_) {
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(last);
  }
  return unshown_ > 0 ? text + " and " + std::to_string(unshown_) + " more" : text;
}

}  // namespace dtrain::distributed
