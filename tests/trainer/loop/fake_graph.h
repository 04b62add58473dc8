// A graph on the CPU, which replays the recorded work by calling it again.
#pragma once

#include <functional>

#include "trainer/device/device_graph.h"

namespace dtrain::loop {

class FakeGraph : public distributed::DeviceGraph {
 public:
  struct Counts {
    int ran = 0, recorded = 0, replayed = 0;
    bool operator==(const Counts&) const = default;
  };
  explicit FakeGraph(Counts* counts) : counts_(*counts) {}

  void Run(const std::function<void()>& work) override {
    ++counts_.ran;
    work();
  }
  void Record(const std::function<void()>& work) override {
    ++counts_.recorded;
    recorded_ = work;
  }
  void Replay() override {
    ++counts_.replayed;
    recorded_();
  }

 private:
  Counts& counts_;
  std::function<void()> recorded_;
};

}  // namespace dtrain::loop
