// LibTorch throws its own types, with a stack trace in the message that does not help people who run a training. Only
// LibTorch's allocator has a type for a full GPU; errors of CUDA's libraries are recognised by their text.
#include "trainer/failure.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <new>
#include <system_error>
#include <utility>

namespace dtrain {
namespace {

// Whether c10d or Gloo threw `error` because a connection broke or a collective timed out. In the backward pass c10d
// rethrows it with another type, so only its text tells. In a run of several ranks the control plane has the last word.
bool IsLostPeer(const std::exception& error, const std::string& message) {
  return dynamic_cast<const c10::DistError*>(&error) != nullptr || message.find("gloo") != std::string::npos ||
         message.find("Connection closed by peer") != std::string::npos;
}

bool Contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) != std::string::npos) return true;
  }
  return false;
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

std::function<int(const std::exception&)>& ExitReport() {
  static std::function<int(const std::exception&)> report;
  return report;
}

std::function<int(const std::exception&)>& TerminateReport() {
  static std::function<int(const std::exception&)> report;  // static, since std::terminate takes no arguments
  return report;
}

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

void OmitStackTraces() {
  c10::SetStackTraceFetcher([]() -> std::string { return ""; });
}

void ReportOnTerminate(std::function<int(const std::exception&)> report) {
  TerminateReport() = std::move(report);
  std::set_terminate(&OnTerminate);
}

OwnExit::OwnExit(std::function<int(const std::exception&)> report) {
  ExitReport() = std::move(report);
  static const int registered = std::atexit([] {
    const auto take = std::exchange(ExitReport(), nullptr);
    if (!take) return;
    const std::system_error failure(std::make_error_code(std::errc::resource_unavailable_try_again),
                                    "a library has ended the process (its message is above), as libgomp does when a "
                                    "thread cannot be started");
    _exit(take(failure));
  });
  static_cast<void>(registered);
}

OwnExit::~OwnExit() { ExitReport() = nullptr; }

}  // namespace dtrain
