#include "data/signals.h"

#include <unistd.h>

#include <array>
#include <csignal>

namespace dtrain {
namespace {

alignas(64) std::array<char, size_t{256} * 1024> handlers_stack;  // a frame with AMX's registers has 11 KiB

}  // namespace

bool IsIgnored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void HandleSignal(int signal, void (*handler)(int)) {
  stack_t stack{};
  stack.ss_sp = handlers_stack.data();
  stack.ss_size = handlers_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);  // a parent may have blocked it, and that is handed on
}

void EndBySignal(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  constexpr int kOfShell = 128;
  _exit(kOfShell + signal);
}

}  // namespace dtrain
