// Uses LibTorch's profiler (Kineto), on which torch.profiler is built, too.
#include "trainer/loop/step_profiler.h"

#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <set>

#include "data/careful_open.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"

namespace dtrain::loop {
namespace {

using torch::profiler::impl::ActivityType;

torch::profiler::impl::ProfilerConfig KinetoConfig() {
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO);
}

std::set<ActivityType> Activities(at::Device device) {
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  return activities;
}

void WaitFor(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace

struct StepProfiler::Mark {
  explicit Mark(const std::string& name) : record(at::RecordScope::USER_SCOPE) {
    if (record.isActive()) record.before(name);
  }
  at::RecordFunction record;
};

StepProfiler::StepProfiler(std::optional<config::StepRange> steps, std::filesystem::path trace, at::Device device,
                           bool recorded, Print print)
    : steps_(steps),
      trace_(std::move(trace)),
      device_(device),
      recorded_(recorded),
      print_(std::move(print)),
      timeline_(device, recorded) {}

StepProfiler::~StepProfiler() = default;

void StepProfiler::Before(int64_t number) {
  if (!steps_ || number < steps_->first || number > steps_->last) return;
  if (number == steps_->first) {
    WaitFor(device_);
    torch::autograd::profiler::prepareProfiler(KinetoConfig(), Activities(device_));
    torch::autograd::profiler::enableProfiler(KinetoConfig(), Activities(device_));
  }
  mark_ = std::make_unique<Mark>("train_step " + std::to_string(number));
  timeline_.Enter(report::Phase::kOther);
}

void StepProfiler::After(int64_t number) {
  if (!mark_) return;
  timeline_.Leave();
  mark_.reset();
  if (number != steps_->last) return;
  WaitFor(device_);
  Save();
  WriteTable();
}

void StepProfiler::Save() {
  const auto result = torch::autograd::profiler::disableProfiler();
  std::error_code error;
  std::filesystem::create_directories(trace_.parent_path(), error);
  if (const int descriptor = data::CreateAnew(trace_); descriptor >= 0) close(descriptor);  // does not follow links
  result->save(trace_.string());
  if (!std::filesystem::exists(trace_, error)) {
    throw StorageError("the profile could not be written to " + trace_.string(),
                       "is the run directory writable, and the disk not full?");
  }
}

void StepProfiler::WriteTable() {
  std::string text;
  for (const std::string& line : StepTable(timeline_.Seconds(), steps_->first, steps_->last, recorded_)) {
    print_(line);
    text += line + "\n";
  }
  checkpoint::WriteAtomically(std::filesystem::path(trace_).replace_extension(".txt"), text);
}

}  // namespace dtrain::loop
