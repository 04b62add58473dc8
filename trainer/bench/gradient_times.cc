// Uses autograd's hooks instead of the reducer's times, since a run of one rank has no reducer.
#include "trainer/bench/gradient_times.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>

namespace dtrain::loop {
namespace {

double NowMilliseconds(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

struct Arrival {
  int64_t bytes = 0;
  double milliseconds = 0;  // summed over steps
};

}  // namespace

nlohmann::ordered_json MeasureGradientTimes(const StepParts& parts, const std::vector<at::Tensor>& parameters,
                                            int64_t steps) {
  const at::Device device = parameters.front().device();
  std::vector<Arrival> arrivals(parameters.size());
  std::vector<unsigned> hooks;
  double backward_start = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    arrivals[i].bytes = static_cast<int64_t>(parameters[i].nbytes());
    hooks.push_back(parameters[i].register_hook([&arrivals, &backward_start, i, device](const at::Tensor&) {
      arrivals[i].milliseconds += NowMilliseconds(device) - backward_start;
    }));
  }
  double forward = 0, backward = 0, update = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const double start = NowMilliseconds(device);
    parts.forward();
    backward_start = NowMilliseconds(device);
    parts.backward();
    const double update_start = NowMilliseconds(device);
    parts.update();
    forward += backward_start - start;
    backward += update_start - backward_start;
    update += NowMilliseconds(device) - update_start;
  }
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].remove_hook(hooks[i]);

  std::sort(arrivals.begin(), arrivals.end(),
            [](const Arrival& a, const Arrival& b) { return a.milliseconds < b.milliseconds; });
  const auto count = static_cast<double>(steps);
  auto gradients = nlohmann::ordered_json::array();
  for (const Arrival& arrival : arrivals) gradients.push_back({arrival.bytes, arrival.milliseconds / count});
  return {{"forward_milliseconds", forward / count},
          {"backward_milliseconds", backward / count},
          {"update_milliseconds", update / count},
          {"gradients", gradients}};
}

}  // namespace dtrain::loop
