// Raises the number of files and connections that this process may have open.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace dtrain {

// Many systems allow 1,024 unless a process asks for more. Data files, connections to other ranks, Gloo and the store
// all count towards this limit, and a stranger who holds connections open must not exhaust it.
inline void AllowManyOpenFiles() {
  constexpr rlim_t kWanted = 65536;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kWanted) return;
  files.rlim_cur = std::min(kWanted, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace dtrain
