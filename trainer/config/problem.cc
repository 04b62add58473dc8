// Writes each problem on one line, because log collectors split texts at line ends.
#include "trainer/config/problem.h"

namespace dtrain::config {

std::string Describe(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    const std::string given = problem.value.empty() ? " is not set" : "=" + problem.value;
    text += (text.empty() ? "" : "\n") + ("--" + problem.flag) + given +
            (problem.unused.empty() ? ": expected " + problem.expected : ": not used by " + problem.unused);
    if (!problem.hint.empty()) text += "; " + problem.hint;
  }
  return text;
}

}  // namespace dtrain::config
