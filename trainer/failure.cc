// LibTorch throws its own types, with a stack trace in the message that helps nobody who runs a training. CUDA's
// libraries have their own words for a full GPU, and only LibTorch's allocator has a type for it.
#include "trainer/failure.h"

#include <c10/util/Exception.h>
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

// What c10d and Gloo throw when a connection breaks or a collective is late. In the backward pass c10d wraps it without
// keeping its type, so its text is all there is; in a run of several ranks the control plane has the last word.
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

// std::thread and its relatives say no more than "Resource temporarily unavailable".
bool IsMissingThread(const std::exception& error) { return Is(error, std::errc::resource_unavailable_try_again); }

// By type, by number, or in the words of LibTorch's allocators and mappings, of OpenCV, and of CUDA's libraries.
bool IsOutOfMemory(const std::exception& error, const std::string& message) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || Is(error, std::errc::not_enough_memory) ||
         Contains(message, {"not enough memory", "can't allocate memory", "Cannot allocate memory",
                            "Insufficient memory", "CUDA error: out of memory", "CUDA out of memory", "Cuda failure 2 ",
                            "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED"});
}

// What NCCL itself complains of, in its own words: "unhandled system error …; ncclSystemError: …; Last error: …". Empty
// where it does not, or where it says that the other side has gone.
std::string NcclComplaint(const std::string& message) {
  const size_t begin = message.find("NCCL error in: ");
  if (begin == std::string::npos || message.find("ncclRemoteError") != std::string::npos) return "";
  const size_t place = message.find(", ", begin);  // behind the file and line of LibTorch's
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
  static std::function<int(const std::exception&)> report;  // std::terminate takes no arguments
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
    failure.hint = "lower --batch_size (--grad_accum_steps keeps the global batch), or --image_size";
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
    failure.hint = "look at that file or folder: is it there, may this user read and write it, does a link lead away?";
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
                                    "a library has ended the process (its words are above), as libgomp does when a "
                                    "thread cannot be started");
    _exit(take(failure));
  });
  static_cast<void>(registered);
}

OwnExit::~OwnExit() { ExitReport() = nullptr; }

}  // namespace dtrain
