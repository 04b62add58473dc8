// Reports that there is too little memory to load the program's libraries. Their initialisers run before main, where
// nothing can catch the std::bad_alloc that they throw, and the process would be aborted. This code runs before them
// (.preinit_array). If the libraries cannot even be mapped, the dynamic loader ends the process with 127 and a message
// of its own, before any code of the program has run.
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "data/error.h"

namespace {

constexpr std::string_view kMessage =
    "\ndtrain failed (out_of_memory, exit code 7): there is too little memory to load the program's libraries\n"
    "  what to do: raise the limit on address space (ulimit -v), or the container's memory\n";

[[noreturn]] void OnTerminate() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
    _exit(static_cast<int>(dtrain::ExitCode::kOutOfMemory));
  } catch (...) {  // not about memory
  }
  std::abort();
}

std::terminate_handler usual_handler = nullptr;

void WatchLibraries(int, char**, char**) { usual_handler = std::set_terminate(&OnTerminate); }

__attribute__((section(".preinit_array"), used)) void (*const watch_libraries)(int, char**, char**) = &WatchLibraries;

// The program's own objects are initialised after its libraries.
const bool libraries_are_loaded = (std::set_terminate(usual_handler), true);

}  // namespace
