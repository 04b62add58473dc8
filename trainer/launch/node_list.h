// Reads Slurm's compressed lists of machines without scontrol, which containers lack.
#pragma once

#include <string>
#include <vector>

namespace dtrain::launch {

// Returns the first machine of a list: "gpu[01-03,07],login2" → gpu01. A name may have several brackets. Throws
// UsageError naming `text` if it is malformed.
std::string FirstNode(const std::string& text);

// Expands Slurm's counts per machine: "2(x3),1" → 2 2 2 1. Throws UsageError naming `text` if it is malformed or has
// more than 65,536 counts.
std::vector<int> ExpandCounts(const std::string& text);

}  // namespace dtrain::launch
