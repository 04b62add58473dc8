// The threads of these programs: tests/check_includes.py refuses others. So nothing that a thread must do before
// anything else, such as choosing its GPU, can be forgotten for one of them.
#pragma once

#include <atomic>
#include <concepts>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

namespace dtrain::data {

// Called first by each thread that starts from now on, if it is set. It belongs to the process, as the device does for
// which device::ChooseDevice sets it. Must not throw.
inline std::atomic<void (*)()> first_in_threads = nullptr;

// As std::jthread, with a function of no arguments or of a std::stop_token.
class Thread : public std::jthread {
 public:
  Thread() = default;

  template <typename Work>
  requires(!std::same_as<std::remove_cvref_t<Work>, Thread>) explicit Thread(Work work)
      : std::jthread([work = std::move(work)](const std::stop_token& stop) mutable {
          if (void (*const first)() = first_in_threads) first();
          if constexpr (std::invocable<Work&, const std::stop_token&>) {
            work(stop);
          } else {
            work();
          }
        }) {}
};

}  // namespace dtrain::data
