// The time before the start, as rank 0 sees it: which ranks are missing, and whether the configurations of those that
// are ready are the same. Knows no connections, so tests need none.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  // Returns "waiting for 2 of 4 ranks: 1 not there; 3 still preparing". `contact` tells of each rank.
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

}  // namespace dtrain::control
