// How all ranks agree to stop at the same point without a collective: rank 0 proposes a point slightly ahead, each rank
// accepts unless it has passed that point already, and only a point that all ranks have accepted is committed. Points
// are those of Position::point.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dtrain::control {

// Rank 0's side.
class StopAgreement {
 public:
  explicit StopAgreement(int world_size) : accepted_(static_cast<size_t>(world_size), false) {}

  bool under_way() const { return proposal_ > 0; }

  // Starts a new proposal, which replaces an earlier one, and returns its point. `furthest` is the last point that any
  // rank is known to have passed; `margin` is at least 1.
  int64_t Propose(int64_t furthest, int64_t margin) {
    proposal_ = furthest + margin;
    accepted_.assign(accepted_.size(), false);
    missing_ = accepted_.size();
    return proposal_;
  }
  // Returns true if all ranks have accepted the proposal, which is then to be committed. Answers to an earlier proposal
  // do not count.
  bool Accept(int rank, int64_t point) {
    if (point != proposal_) return false;
    if (!accepted_[static_cast<size_t>(rank)]) --missing_;
    accepted_[static_cast<size_t>(rank)] = true;
    return missing_ == 0;
  }
  // `passed` is the point that the rejecting rank has reached. Returns the next point to propose, or empty if the
  // answer was to an earlier proposal.
  std::optional<int64_t> Reject(int64_t point, int64_t passed, int64_t margin) {
    if (point != proposal_) return std::nullopt;
    return Propose(passed, margin);
  }

 private:
  int64_t proposal_ = 0;        // 0: none
  std::vector<bool> accepted_;  // by rank
  size_t missing_ = 0;          // the number of ranks that have not accepted yet
};

}  // namespace dtrain::control
