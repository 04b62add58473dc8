// Finds the name closest to a mistyped one, by the number of typing errors between them.
#pragma once

#include <string>
#include <vector>

namespace dtrain::command_line {

// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int EditDistance(const std::string& a, const std::string& b);

// Returns the nearest candidate (the first of equally near ones) that differs from `name` by at most a third of its
// letters, or by one if that is more. Returns an empty string if there is none, or if `name` has more than 64 letters.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

// Returns "did you mean PREFIXname?", or an empty string if no candidate is near.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates,
                       const std::string& prefix = "");

}  // namespace dtrain::command_line
