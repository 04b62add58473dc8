// The first stage of the command line: flagfiles expanded in place, so that a later flag overrides an earlier one
// wherever the two stand. It knows nothing of flags but --flagfile; trainer/config/aliases.h rewrites its result.
#pragma once

#include <string>
#include <vector>

namespace dtrain::command_line {

struct Argument {
  std::string text;   // "--name=value", "--name", "value"
  std::string place;  // "FILE:LINE: " for what comes from a flagfile, else empty
};

// What flagfiles may come to, all together: one that never ends, or includes others without end, is a mistake.
inline constexpr size_t kMostFlagfileBytes = size_t{1} << 20;
inline constexpr int kMostFlagfiles = 100;

// A flagfile has a flag a line, or is a JSON object whose keys are flags: a run's config.json. There null, an empty
// text and what is an object itself say nothing; where its object `start` has the list `given`, the flags of that list
// alone are taken, so that what followed from them follows anew.
//
// Appends a sentence to `mistakes` for each flagfile that cannot be read, includes itself, or holds something else than
// flags; and one where they are more than the above. A nested relative name is looked up beside the file that says it,
// then in the working directory.
std::vector<Argument> ExpandFlagfiles(const std::vector<std::string>& arguments, std::vector<std::string>& mistakes);

}  // namespace dtrain::command_line
