#include "trainer/report/answer.h"

#include <cerrno>
#include <cstdio>

#include "trainer/checkpoint/durable_file.h"

namespace dtrain::report {

void PrintAnswer(const std::string& text) {
  errno = 0;
  if (!text.empty()) std::puts(text.c_str());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    checkpoint::ThrowSystemError("write to", "stdout", errno != 0 ? errno : EIO);
  }
}

}  // namespace dtrain::report
