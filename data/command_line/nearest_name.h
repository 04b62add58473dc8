// "Did you mean …?": the closest of some names, by the number of typing errors between them.
#pragma once

#include <string>
#include <vector>

namespace dtrain::command_line {

// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
int EditDistance(const std::string& a, const std::string& b);

// The nearest candidate (the first of equals), or an empty string where none is near enough to be meant.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

// "did you mean PREFIXname?", or an empty string.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates,
                       const std::string& prefix = "");

}  // namespace dtrain::command_line
