// Graphs on the CPU, which replay the recorded work by calling it again.
#pragma once

#include <functional>

#include "trainer/device/cuda_plugin.h"

namespace dtrain::loop {

class FakeGraphs : public device::DeviceGraphs {
 public:
  struct Counts {
    int ran = 0, recorded = 0, replayed = 0;
    bool operator==(const Counts&) const = default;
  };
  explicit FakeGraphs(Counts* counts) : counts_(*counts) {}

  void Run(const Work& work) override {
    ++counts_.ran;
    work();
  }
  Work Record(const Work& work) override {
    if (before_recording) before_recording();
    ++counts_.recorded;
    return [this, work] {
      ++counts_.replayed;
      work();
    };
  }
  bool HasRoom() override { return has_room; }

  bool has_room = true;
  std::function<void()> before_recording;

 private:
  Counts& counts_;
};

}  // namespace dtrain::loop
