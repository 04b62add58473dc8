#include "trainer/report/answer.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "trainer/errors.h"

namespace dtrain::report {

void PrintAnswer(const std::string& text) {
  errno = 0;
  if (!text.empty()) std::puts(text.c_str());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    const int reason = errno;                      // 0 if an earlier write has failed
    if (reason == EPIPE && !text.empty()) return;  // `head` has read enough of it
    throw StorageError("cannot write to stdout" + (reason != 0 ? ": " + std::generic_category().message(reason) : ""),
                       "its disk may be full, or the program that reads it has ended");
  }
}

}  // namespace dtrain::report
