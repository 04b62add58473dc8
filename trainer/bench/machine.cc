#include "trainer/bench/benches.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>

#include "data/machine/limits.h"
#include "trainer/report/log.h"
#include "trainer/report/points.h"

namespace dtrain::bench {
namespace {

// On some architectures /proc/cpuinfo has no model name; then the name of the architecture is used.
std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  utsname system{};
  uname(&system);
  return system.machine;
}

// Multiply and add are two operations, and the backward pass does twice the work of the forward pass.
constexpr double kFlopsPerMultiplyAdd = 2.0 * 3.0;
constexpr double kFloatBytes = 4;

// Returns the median seconds of one call of `work`, which returns what it has written.
double SecondsOf(const std::function<at::Tensor()>& work, int64_t times) {
  const auto round = [&] {
    const auto start = std::chrono::steady_clock::now();
    at::Tensor written;
    for (int64_t i = 0; i < times; ++i) written = work();
    written.flatten()[0].item<double>();  // waits for the device
    return report::SecondsSince(start) / static_cast<double>(times);
  };
  round();
  std::array<double, 5> seconds{};
  std::generate(seconds.begin(), seconds.end(), round);
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

nlohmann::ordered_json DescribeMachine() {
  return {{"threads", at::get_num_threads()},
          {"cpu", CpuName()},
          {"cores", data::AvailableCores()},
          {"torch", TORCH_VERSION}};
}

DeviceLimits MeasureLimits(at::Device device, at::ScalarType type, const LimitTrials& trials) {
  const at::NoGradGuard no_grad;
  DeviceLimits limits;
  {
    const at::Tensor source = at::randn({trials.copied_bytes / static_cast<int64_t>(kFloatBytes)},
                                        at::TensorOptions(at::kFloat).device(device));
    at::Tensor target = at::empty_like(source);
    const double seconds = SecondsOf([&] { return target.copy_(source); }, trials.times);
    limits.bytes_per_second = 2 * static_cast<double>(source.nbytes()) / seconds;
  }
  const int64_t size = trials.product_size;
  const auto options = at::TensorOptions(type).device(device);
  const at::Tensor a = at::randn({size, size}, options), b = at::randn({size, size}, options);
  at::Tensor product = at::empty_like(a);
  const double seconds = SecondsOf([&] { return at::mm_out(product, a, b); }, trials.times);
  limits.flops_per_second =
      2 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size) / seconds;
  return limits;
}

StepWork WorkOfStep(const models::ForwardCost& cost_of_sample, const StepScale& scale) {
  const auto element = static_cast<double>(c10::elementSize(scale.products));
  const double half = element < kFloatBytes ? element : 0;
  const double of_gradients = kFloatBytes + (half > 0 ? half + kFloatBytes : 0);
  const auto samples = static_cast<double>(scale.samples), weights = static_cast<double>(scale.weights);
  return {.flops = kFlopsPerMultiplyAdd * static_cast<double>(cost_of_sample.multiply_adds) * samples,
          .bytes = element * cost_of_sample.moved_elements * samples +
                   weights * (2 * kFloatBytes + of_gradients + half) + 2 * static_cast<double>(scale.optimizer_bytes)};
}

nlohmann::ordered_json DescribeRoof(const StepWork& work, const DeviceLimits& limits, double step_seconds) {
  const double products = work.flops / limits.flops_per_second, bytes = work.bytes / limits.bytes_per_second;
  const double share = (products + bytes) / step_seconds;
  return {
      {"roof",
       report::Format("floor %.1f ms (products %.1f at %.0f TFLOP/s, %.1f GB %.1f at %.2f TB/s), %.0f %% of it reached",
                      1e3 * (products + bytes), 1e3 * products, limits.flops_per_second / 1e12, work.bytes / 1e9,
                      1e3 * bytes, limits.bytes_per_second / 1e12, 100 * share)},
      {"floor_milliseconds", 1e3 * (products + bytes)},
      {"floor_products_milliseconds", 1e3 * products},
      {"floor_bytes", work.bytes},
      {"floor_bytes_milliseconds", 1e3 * bytes},
      {"flops_per_second", limits.flops_per_second},
      {"bytes_per_second", limits.bytes_per_second},
      {"share_of_floor", share}};
}

}  // namespace dtrain::bench
