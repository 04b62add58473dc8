// The version of the sources that a program was built from. Only programs link it: a new commit recompiles one small
// file and relinks the programs, but no test.
#pragma once

#include <string>

namespace dtrain {

// "0.1.0"
std::string Version();

// "d727a0d00b1c", or "d727a0d00b1c-dirty" if the build had uncommitted changes; empty if it was built from an archive.
std::string Commit();

// "0.1.0 (commit d727a0d00b1c)"
const char* VersionAndCommit();

}  // namespace dtrain
