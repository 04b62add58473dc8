#include "data/command_line/version.h"

#include "dtrain_commit.h"  // written at each build by cmake/WriteCommit.cmake

namespace dtrain {

std::string Version() { return DTRAIN_VERSION; }

std::string Commit() { return DTRAIN_COMMIT; }

const char* VersionAndCommit() {
  return sizeof DTRAIN_COMMIT > 1 ? DTRAIN_VERSION " (commit " DTRAIN_COMMIT ")"
                                  : DTRAIN_VERSION " (built from an archive, without a commit)";
}

}  // namespace dtrain
