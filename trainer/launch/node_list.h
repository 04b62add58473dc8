// Expands Slurm's compressed lists of machines without scontrol, which containers lack.
#pragma once

#include <string>
#include <vector>

namespace dtrain::launch {

// "gpu[01-03,07],login2" → gpu01 gpu02 gpu03 gpu07 login2. A name with several brackets stands for all combinations, in
// which the last bracket counts fastest. Throws UsageError naming `text` if it is malformed or names more than 65,536
// machines.
std::vector<std::string> ExpandNodeList(const std::string& text);

// Expands Slurm's counts per machine: "2(x3),1" → 2 2 2 1. Throws as ExpandNodeList does.
std::vector<int> ExpandCounts(const std::string& text);

}  // namespace dtrain::launch
