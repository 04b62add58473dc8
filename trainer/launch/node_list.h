// Slurm's compressed lists of machines, read without scontrol (which containers lack).
#pragma once

#include <string>
#include <vector>

namespace dtrain::launch {

// "gpu[01-03,07],login2" → gpu01 gpu02 gpu03 gpu07 login2; several brackets in a name multiply, the last counting
// fastest. Throws UsageError naming the text where it is none, or names more than 65,536 machines.
std::vector<std::string> ExpandNodeList(const std::string& text);

// Slurm's counts per machine: "2(x3),1" → 2 2 2 1. Throws likewise.
std::vector<int> ExpandCounts(const std::string& text);

}  // namespace dtrain::launch
