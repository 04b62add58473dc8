#include "data/command_line/version.h"

#include "dtrain_commit.h"  // written at each build by cmake/WriteCommit.cmake

namespace dtrain {

std::string Version() { return DTRAIN_VERSION; }

std::string Commit() { return DTRAIN_COMMIT; }

std::string VersionAndCommit() {
  const std::string commit = Commit();
  return Version() + (commit.empty() ? " (built from an archive, without a commit)" : " (commit " + commit + ")");
}

}  // namespace dtrain
