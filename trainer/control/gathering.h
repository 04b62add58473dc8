// What ranks have to agree on, as rank 0 sees it. Before the start: which ranks are missing, and whether the
// configurations of those that are ready are the same. Later: where all of them stop, and how many
// bad records they have met. Knows no connections, so tests need none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/pipeline/quarantine.h"

namespace dtrain::control {

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

class Gathering {
 public:
  explicit Gathering(int world_size) : world_size_(world_size) {}

  struct Disagreement {
    std::string message;
    std::string hint;
  };
  // Notes that `rank` is ready with this configuration, a JSON object; `place` says where it runs, "host h, process 1".
  // Compares configurations with rank 0's, key by key, as soon as both have arrived. Returns the first difference.
  // Ignores a second configuration of the same rank.
  std::optional<Disagreement> Ready(int rank, const nlohmann::json& config, const std::string& place);
  bool all_are_ready() const { return ready_.size() == static_cast<size_t>(world_size_); }

  enum class Contact { kNone, kSilent, kAnswers };
  // Returns "waiting for 2 of 4 ranks: 1 not there; 3 does not answer", or if all are there and answer, "… 3 still
  // preparing". `contact` tells of each rank.
  std::string Missing(const std::function<Contact(int rank)>& contact) const;

 private:
  struct Rank {
    nlohmann::json config;
    std::string place;
  };
  static std::optional<Disagreement> Compare(const Rank& first, int rank, const Rank& other);

  int world_size_;
  std::map<int, Rank> ready_;
};

// How all ranks agree to stop at the same point without a collective: rank 0 proposes a point slightly ahead, each rank
// accepts unless it has passed that point already, and only a point that all ranks have accepted is committed. Points
// are those of Position::point. This is rank 0's side.
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

// The message by which a rank reports a bad record to the server. The rank sends it once per record. `dataset_size` is
// in samples; `options` are those of the rank's quarantine.
nlohmann::json BadRecordMessage(const data::BadRecord& record, int64_t dataset_size,
                                const data::QuarantineOptions& options);

// Counts the bad records of all ranks together, because a rank knows only those that it has read itself, and two ranks
// may meet the same one in different epochs.
class BadRecordCount {
 public:
  // Adds the record of a BadRecordMessage, which ParseControlLine has checked. Returns the number of different bad
  // records in its split so far. Throws DataError if that exceeds the budget in the message.
  int64_t Add(const nlohmann::json& message);

 private:
  std::map<std::string, data::Quarantine> splits_;  // by name of the split
};

}  // namespace dtrain::control
