// LibTorch throws its own types, with a stack trace in the message that does not help people who run a training. Only
// LibTorch's allocator has a type for a full GPU; errors of CUDA's libraries are recognised by their text.
#include "trainer/failure.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "data/shown.h"
#include "data/written_file.h"
#include "trainer/report/run_directory.h"

namespace dtrain {
namespace {

bool Contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) != std::string::npos) return true;
  }
  return false;
}

// Whether c10d or Gloo threw `error` because a connection broke or a collective timed out. In the backward pass c10d
// rethrows it with another type, so only its text tells. In a run of several ranks the control plane has the last word.
bool IsLostPeer(const std::exception& error, const std::string& message) {
  return dynamic_cast<const c10::DistError*>(&error) != nullptr ||
         Contains(message, {"gloo", "Connection closed by peer"});
}

bool Is(const std::exception& error, std::errc code) {
  const auto* system_error = dynamic_cast<const std::system_error*>(&error);
  return system_error != nullptr && system_error->code() == code;
}

// Whether a thread could not be started. The message of std::thread is no more than "Resource temporarily unavailable".
bool IsMissingThread(const std::exception& error) { return Is(error, std::errc::resource_unavailable_try_again); }

// Decides by type, by error number, or by the texts of LibTorch's allocators and mappings, OpenCV and CUDA's libraries.
bool IsOutOfMemory(const std::exception& error, const std::string& message) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || Is(error, std::errc::not_enough_memory) ||
         Contains(message, {"not enough memory", "can't allocate memory", "Cannot allocate memory",
                            "Insufficient memory", "CUDA error: out of memory", "CUDA out of memory", "Cuda failure 2 ",
                            "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED"});
}

// Returns NCCL's own text of its error: "unhandled system error …; ncclSystemError: …; Last error: …". Returns an empty
// string if there is none, or if NCCL says that the other side has gone.
std::string NcclComplaint(const std::string& message) {
  const size_t begin = message.find("NCCL error in: ");
  if (begin == std::string::npos || message.find("ncclRemoteError") != std::string::npos) return "";
  const size_t place = message.find(", ", begin);  // after LibTorch's file and line
  std::string words = place == std::string::npos ? message.substr(begin) : message.substr(place + 2);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  for (size_t at = 0; (at = words.find('\n', at)) != std::string::npos; at += 2) words.replace(at, 1, "; ");
  return words;
}

// The report of RunProgram. It is static, since std::terminate and std::atexit take no arguments.
std::function<int(const std::exception&)>& TerminateReport() {
  static std::function<int(const std::exception&)> report;
  return report;
}

// As TerminateReport; null once the program has ended by itself.
std::function<int(const std::exception&)>& ExitReport() {
  static std::function<int(const std::exception&)> report;
  return report;
}

// c10d's watchdog of NCCL throws on its own thread when a peer is lost, while the main thread waits for a GPU that will
// never answer.
[[noreturn]] void OnTerminate() {
  static std::atomic_flag reporting;
  while (reporting.test_and_set()) pause();  // the first thread's report ends the process
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      _exit(TerminateReport()(error));
    } catch (...) {
    }
  }
  std::abort();
}

// An exit() that a library calls: libgomp ends the process with 1 if it cannot start a thread.
void OnExit() {
  const auto take = std::exchange(ExitReport(), nullptr);
  if (!take) return;
  const std::system_error failure(std::make_error_code(std::errc::resource_unavailable_try_again),
                                  "a library has ended the process (its message is above), as libgomp does when a "
                                  "thread cannot be started");
  _exit(take(failure));
}

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

constexpr std::streamoff kShownBytes = 4096;

// Prints the last lines of the first rank's log. Rank 0 has written to the console already.
void ShowEndOfLog(const launch::RankDeath& first, const std::filesystem::path& run_directory) {
  const int rank = first.rank;
  if (rank == 0 || run_directory.empty()) return;
  const std::filesystem::path path = report::RunDirectory(run_directory).log(rank);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return;
  const std::streamoff size = file.tellg();
  file.seekg(size > kShownBytes ? size - kShownBytes : 0);
  std::string line;
  if (size > kShownBytes) std::getline(file, line);  // skips the rest of a line that is cut
  const bool is_victim = first.signal == 0 && first.exit_code == static_cast<int>(ExitCode::kPeerLost);
  const char* what = is_victim ? "has lost another rank" : "failed first";
  std::fprintf(stderr, "rank %d %s; the end of %s:\n", rank, what, Shown(path.string()).c_str());
  while (std::getline(file, line)) std::fprintf(stderr, "  %s\n", Shown(line).c_str());
}

report::Failure KilledRank(const launch::AttemptEnd& end, int world_size) {
  const int signal = end.cause.signal;
  const char* hint = "it was sent from outside; SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP let the run save first";
  for (const int of_fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    if (signal == of_fault)
      hint = "this is a bug of dtrain or of a library: please report it with the end of the rank's log";
  }
  if (signal == SIGKILL) {
    hint = "if nobody killed it, the system ran out of memory (see dmesg): lower --batch_size or --workers";
  }
  return {.code = ExitCode::kPeerLost,
          .message = "the rank was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")",
          .hint = hint,
          .rank = end.cause.rank,
          .world_size = world_size,
          .step = end.last_step >= 0 ? std::optional(end.last_step) : std::nullopt,
          .is_root_cause = true};
}

}  // namespace

report::Failure FailureOf(const std::exception& error) {
  report::Failure failure;
  failure.message = error.what();
  if (const auto* torch_error = dynamic_cast<const c10::Error*>(&error)) {
    failure.message = torch_error->what_without_backtrace();
  }
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    failure.code = known->code();
    failure.hint = known->hint();
  } else if (IsMissingThread(error)) {
    failure.code = ExitCode::kOutOfMemory;
    failure.message = "a thread could not be started: " + failure.message;
    failure.hint =
        "lower --workers or --nproc_per_node, or raise the limits on processes and memory (ulimit -u and -v, those of "
        "the container)";
  } else if (IsOutOfMemory(error, failure.message)) {
    failure.code = ExitCode::kOutOfMemory;
    failure.hint =
        "lower --batch_size (--grad_accum_steps keeps the global batch), --image_size or --tokens_per_sample";
    if (Contains(failure.message, {"CUDA", "Cuda", "CUDNN", "CUBLAS", "GPU"})) {
      failure.hint +=
          "; --precision=bf16 or fp16 halves what the forward pass keeps; nvidia-smi shows who else uses the GPU";
    }
  } else if (const std::string complaint = NcclComplaint(failure.message); !complaint.empty()) {
    failure.code = ExitCode::kPeerLost;
    failure.message = "NCCL failed: " + complaint;
    failure.hint =
        "NCCL_DEBUG=INFO says more; NCCL_SOCKET_IFNAME names the network interface to use (lo between the ranks of one "
        "machine)";
  } else if (IsLostPeer(error, failure.message)) {
    failure.code = ExitCode::kPeerLost;
    failure.message = "another rank was lost: " + failure.message;
    failure.hint = "look for the first error in the other ranks' output";
  } else if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) {
    failure.code = ExitCode::kStorage;
    failure.hint = "check that the file or folder exists, that this user may read and write it, and where links lead";
  } else if (Contains(failure.message, {"no kernel image is available"})) {
    failure.code = ExitCode::kUsage;
    failure.hint =
        "LibTorch or this build has no kernels for this GPU: use a LibTorch that has them, and build with "
        "-DDTRAIN_CUDA_ARCHITECTURES, or run on the CPU with --backend=gloo";
  } else {
    failure.hint = "this is a bug of dtrain: please report it with the command line";
  }
  return failure;
}

int RunProgram(const std::function<int()>& body, const std::function<int(const std::exception&)>& report) {
  data::OccupyStandardStreams();
  KeepFreedMemory();
  AllowManyOpenFiles();
  std::signal(SIGPIPE, SIG_IGN);  // writing to a socket whose other end has died must fail with an error
  std::signal(SIGXFSZ, SIG_IGN);  // writing beyond the limit on file sizes must fail with an error
  c10::SetStackTraceFetcher([]() -> std::string { return ""; });  // c10d would log one for each lost or foreign peer
  TerminateReport() = report;
  std::set_terminate(&OnTerminate);
  ExitReport() = report;
  std::atexit(&OnExit);
  int exit_code = 0;
  try {
    exit_code = body();
  } catch (const std::exception& error) {
    exit_code = report(error);
  }
  ExitReport() = nullptr;
  return exit_code;
}

void ReportAttempt(const launch::AttemptEnd& end, int world_size, const std::filesystem::path& run_directory,
                   bool as_json) {
  ShowEndOfLog(end.cause, run_directory);
  if (end.cause.signal != 0) {
    report::Failure failure = KilledRank(end, world_size);
    failure.as_json = as_json;
    if (!end.verdict.restart && !end.verdict.reason.empty()) failure.message += "; " + end.verdict.reason;
    report::ReportFailure(failure, run_directory);
    if (!end.verdict.restart) return;
  }
  if (!end.verdict.reason.empty()) std::fprintf(stderr, "dtrain: %s\n", end.verdict.reason.c_str());
}

}  // namespace dtrain
