// Which version of the sources a program was built from. Linked into programs only: a new commit compiles one small
// file and links them anew, and no test.
#pragma once

#include <string>

namespace dtrain {

// "0.1.0"
std::string Version();

// "d727a0d00b1c", "d727a0d00b1c-dirty" with changes that are in no commit; empty where it was built from an archive.
std::string Commit();

// "0.1.0 (commit d727a0d00b1c)"
std::string VersionAndCommit();

}  // namespace dtrain
