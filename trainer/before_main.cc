// What runs before any library is initialised (.preinit_array), with nothing but arguments, environment, constants and
// system calls.
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace {

// Environment variables that libraries read only while they are loaded.
//
// GOMP_SPINCOUNT: how long OpenMP's threads spin before they sleep. By default they spin for milliseconds at the end of
//   every parallel region. If a thread shares its core with the loader's decode threads or another job, this burns the
//   time slices that the late threads need: a training step was seen to take five times as long.
// TORCH_CPP_LOG_LEVEL: c10d logs stack traces for errors that this program reports in a sentence.
constexpr const char* kSettings[] = {"GOMP_SPINCOUNT=1000", "TORCH_CPP_LOG_LEVEL=ERROR"};
constexpr size_t kNumSettings = sizeof kSettings / sizeof kSettings[0];
constexpr size_t kMostVariables = 8192;  // an environment larger than that is left alone

bool SameName(const char* variable, const char* setting) {
  const size_t length = static_cast<size_t>(std::strchr(setting, '=') - setting) + 1;
  return std::strncmp(variable, setting, length) == 0;
}

// Executes the program again with the settings that are missing, which costs a few milliseconds. Variables that the
// user has set stay as they are.
void CompleteEnvironment(int, char** argv, char** environment) {
  const char* completed[kMostVariables + kNumSettings + 1];
  size_t count = 0;
  bool is_set[kNumSettings] = {};
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables) return;
    for (size_t i = 0; i < kNumSettings; ++i) is_set[i] = is_set[i] || SameName(environment[count], kSettings[i]);
    completed[count] = environment[count];
  }
  const size_t before = count;
  for (size_t i = 0; i < kNumSettings; ++i) {
    if (!is_set[i]) completed[count++] = kSettings[i];
  }
  if (count == before) return;
  completed[count] = nullptr;
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  execve(path, argv, const_cast<char**>(completed));  // if it fails, the program goes on with the old environment
}

__attribute__((section(".preinit_array"), used)) void (*const complete_environment)(int, char**,
                                                                                    char**) = &CompleteEnvironment;

}  // namespace
