// Optimal string alignment distance: a swap counts as one error because swaps are common typing errors. The time is
// quadratic, which does not matter at the length of a flag.
#include "data/command_line/nearest_name.h"

#include <algorithm>

namespace dtrain::command_line {

int EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> distance(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance[i][j] = std::min({replaced, distance[i - 1][j] + 1, distance[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

std::string NearestName(const std::string& name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 64;  // longer than any flag
  if (name.size() > kLongest) return "";
  // Up to a third of the letters may be wrong; a name with more errors is taken for another word.
  int best = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    // Among equally near names one of the same length wins: swapped or mistyped letters are more likely than missing
    // ones.
    const bool fits_better =
        distance == best && !nearest.empty() && nearest.size() != name.size() && candidate.size() == name.size();
    if (distance < best || fits_better) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates, const std::string& prefix) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : "did you mean " + prefix + nearest + "?";
}

}  // namespace dtrain::command_line
