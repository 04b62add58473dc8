// How all ranks come to stop at the same point without a collective: rank 0 proposes a point a little ahead, every
// rank accepts unless it has passed it already, and only a point that all have accepted is committed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dtrain::distributed {

// Rank 0's side.
class StopAgreement {
 public:
  explicit StopAgreement(int world_size) : accepted_(static_cast<size_t>(world_size), false) {}

  bool under_way() const { return proposal_ > 0; }

  // `furthest`: the point that the furthest rank is known to have passed. Returns the point to propose.
  int64_t Propose(int64_t furthest, int64_t margin) {
    proposal_ = furthest + margin;
    accepted_.assign(accepted_.size(), false);
    missing_ = accepted_.size();
    return proposal_;
  }
  // True: all have accepted, commit it. Answers to an earlier proposal do not count.
  bool Accept(int rank, int64_t point) {
    if (point != proposal_) return false;
    if (!accepted_[static_cast<size_t>(rank)]) --missing_;
    accepted_[static_cast<size_t>(rank)] = true;
    return missing_ == 0;
  }
  // `passed`: where the rank that could not accept stands. The next proposal, unless it answers an earlier one.
  std::optional<int64_t> Reject(int64_t point, int64_t passed, int64_t margin) {
    if (point != proposal_) return std::nullopt;
    return Propose(passed, margin);
  }

 private:
  int64_t proposal_ = 0;
  std::vector<bool> accepted_;
  size_t missing_ = 0;  // that have not accepted
};

}  // namespace dtrain::distributed
