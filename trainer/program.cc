#include "trainer/program.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "trainer/failure.h"

namespace dtrain {
namespace {

// A training step frees and allocates the same large tensors again and again. By default glibc returns them to the
// system each time, and every page is then cleared and faulted in anew. With these settings the heap keeps them.
//
// The number of heaps is small, because one of many reading threads allocates a record and a decoding thread frees it:
// with glibc's default of eight heaps per core, each heap grows to the largest size that it ever had to hold. (Loading
// images of all sizes on two cores, the process grew from 320 MiB to 455 MiB in a minute and went on growing; with two
// heaps it stays at 230 MiB.) There is one heap per two cores, but at least two, since threads on several cores may
// allocate at the same time. MALLOC_ARENA_MAX, if set, overrides this number.
void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) {
    mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency()) / 2));
  }
}

// Many systems allow 1,024 unless a process asks for more. Data files, connections to other ranks, Gloo and the store
// all count towards this limit, and a stranger who holds connections open must not exhaust it.
void AllowManyOpenFiles() {
  constexpr rlim_t kWanted = 65536;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kWanted) return;
  files.rlim_cur = std::min(kWanted, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

int RunProgram(const std::function<int()>& body, const std::function<int(const std::exception&)>& report) {
  KeepFreedMemory();
  AllowManyOpenFiles();
  std::signal(SIGPIPE, SIG_IGN);  // writing to a socket whose other end has died must fail with an error
  std::signal(SIGXFSZ, SIG_IGN);  // writing beyond the limit on file sizes must fail with an error
  OmitStackTraces();
  ReportOnTerminate(report);
  const OwnExit own_exit(report);
  try {
    return body();
  } catch (const std::exception& error) {
    return report(error);
  }
}

}  // namespace dtrain
