// Sets how long OpenMP's threads spin before they sleep, which libgomp reads from the environment when it is loaded and
// never again: so this runs before any library's initialisation (.preinit_array), and starts the program once more with
// the variable set. That costs a few milliseconds.
//
// Why: by default a thread spins for milliseconds at the end of every parallel region. Where it shares its core, with
// the decode threads of the loader or with another job, it then burns the time slices that the others need to get
// there: a training step was seen to take ten times as long. Set GOMP_SPINCOUNT or OMP_WAIT_POLICY to choose yourself.
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace {

constexpr const char kSpinCount[] = "GOMP_SPINCOUNT=1000";
constexpr size_t kMostVariables = 8192;  // an environment larger than that is left alone

bool Sets(const char* variable, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

// Nothing of the C library is initialised yet but what the kernel gave: arguments and system calls.
void LimitSpinning(int, char** argv, char** environment) {
  const char* extended[kMostVariables + 2];
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables) return;
    if (Sets(environment[count], "GOMP_SPINCOUNT") || Sets(environment[count], "OMP_WAIT_POLICY")) return;
    extended[count] = environment[count];
  }
  extended[count] = kSpinCount;
  extended[count + 1] = nullptr;
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  execve(path, argv, const_cast<char**>(extended));  // where it fails, things are as they were
}

__attribute__((section(".preinit_array"), used)) void (*const limit_spinning)(int, char**, char**) = &LimitSpinning;

}  // namespace
