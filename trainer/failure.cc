// LibTorch throws its own types, with a stack trace in the message that helps nobody who runs a training.
#include "trainer/failure.h"

#include <c10/util/Exception.h>

#include <new>

namespace dtrain {
namespace {

// What c10d and Gloo throw when a connection breaks or a collective is late. In the backward pass c10d wraps it without
// keeping its type, so its text is all there is; in a run of several ranks the control plane has the last word.
bool IsLostPeer(const std::exception& error, const std::string& message) {
  return dynamic_cast<const c10::DistError*>(&error) != nullptr || message.find("gloo") != std::string::npos ||
         message.find("Connection closed by peer") != std::string::npos;
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
  } else if (IsLostPeer(error, failure.message)) {
    failure.code = ExitCode::kPeerLost;
    failure.message = "another rank was lost: " + failure.message;
    failure.hint = "look for the first error in the other ranks' output";
  } else if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
             dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
             failure.message.find("not enough memory") != std::string::npos) {
    failure.code = ExitCode::kOutOfMemory;
    failure.hint = "lower --batch_size (--grad_accum_steps keeps the global batch), or --image_size";
  } else {
    failure.hint = "this is a bug of dtrain: please report it with the command line";
  }
  return failure;
}

}  // namespace dtrain
