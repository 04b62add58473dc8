// Answers --version, if nothing else is asked, before LibTorch is initialised, which takes a quarter of a second before
// main (.preinit_array). If the answer cannot be written, main tries again and says why.
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "data/command_line/version.h"
#include "trainer/program.h"

namespace {

iovec Piece(const char* text) { return {const_cast<char*>(text), std::strlen(text)}; }

// No library is initialised yet, so this uses only the arguments, constants and system calls.
void AnswerVersion(int argc, char** argv, char**) {
  if (argc != 2 || std::strcmp(argv[1], "--version") != 0) return;
  const iovec line[] = {Piece(dtrain::kProgramName), Piece(" "), Piece(dtrain::VersionAndCommit()), Piece("\n")};
  size_t bytes = 0;
  for (const iovec& piece : line) bytes += piece.iov_len;
  std::signal(SIGPIPE, SIG_IGN);
  if (writev(STDOUT_FILENO, line, 4) == static_cast<ssize_t>(bytes)) _exit(0);
}

__attribute__((section(".preinit_array"), used)) void (*const answer_version)(int, char**, char**) = &AnswerVersion;

}  // namespace
