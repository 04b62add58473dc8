// The trace is that of LibTorch's profiler (Kineto), on which torch.profiler is built, too.
#include "trainer/loop/phases.h"

#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "data/written_file.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
using report::Phase;
namespace {

// proc(5): starttime is field 22, in clock ticks since boot. The name (field 2) is in brackets and may contain spaces,
// so fields are counted after the last bracket.
double SecondsSinceProcessStart() {
  constexpr int kFieldsAfterName = 20;
  std::ifstream file("/proc/self/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < kFieldsAfterName; ++i) fields >> field;
  timespec now{};
  if (!fields || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double since_boot = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return std::max(0.0, since_boot - std::stod(field) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

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

void StepTimeline::Enter(Phase part) {
  if (recorded_ && part != Phase::kData && part != Phase::kOther) part = Phase::kForward;
  if (!marks_.empty() && marks_.back().part == part) return;  // no event may be recorded while a graph is
  Add(part);
}

void StepTimeline::Add(std::optional<Phase> part) {
  Mark mark{.part = part, .time = std::chrono::steady_clock::now(), .event = std::nullopt};
  if (!device_.is_cpu()) {
    mark.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with timing
    mark.event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  marks_.push_back(std::move(mark));
}

report::TimeParts StepTimeline::Seconds() const {
  constexpr double kMilliseconds = 1e-3;
  report::TimeParts seconds;
  for (size_t i = 0; i + 1 < marks_.size(); ++i) {
    const Mark &begin = marks_[i], &end = marks_[i + 1];
    if (!begin.part) continue;
    seconds[*begin.part] += begin.event ? kMilliseconds * begin.event->elapsedTime(*end.event)
                                        : std::chrono::duration<double>(end.time - begin.time).count();
  }
  return seconds;
}

std::vector<std::string> StepTable(const report::TimeParts& seconds, int64_t first, int64_t last, bool recorded) {
  const double total = seconds.total();
  const auto steps = static_cast<double>(last - first + 1);
  std::vector<std::string> lines = {"where the time of steps " + std::to_string(first) + " to " + std::to_string(last) +
                                    " went (profiled steps take longer):"};
  const auto add = [&](const char* name, double spent) {
    lines.push_back(
        report::Format("  %-24s %10.2f ms %6.1f %%", name, 1e3 * spent / steps, total > 0 ? 100 * spent / total : 0));
  };
  add("waiting for data", seconds[Phase::kData]);
  if (recorded) {
    add("forward to update", seconds[Phase::kForward]);  // --cuda_graphs=off tells them apart
  } else {
    add("forward", seconds[Phase::kForward]);
    add("backward", seconds[Phase::kBackward]);
    add("exposed communication", seconds[Phase::kExchange]);
    add("update", seconds[Phase::kUpdate]);
  }
  add("other", seconds[Phase::kOther]);
  add("a step", total);
  return lines;
}

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

StepProfiler::~StepProfiler() {
  if (!begun_) return;
  mark_.reset();
  try {
    torch::autograd::profiler::disableProfiler();  // else the process crashes at its end
  } catch (...) {                                  // an error ends the run already
  }
}

void StepProfiler::Before(int64_t number) {
  if (!steps_ || number < steps_->first || number > steps_->last) return;
  if (!begun_) {
    begun_ = config::StepRange{.first = number, .last = number};
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
  begun_->last = number;
  if (number == steps_->last) Finish();
}

void StepProfiler::Finish() {
  if (!begun_) return;
  WaitFor(device_);
  Save();
  WriteTable();
  begun_.reset();
}

void StepProfiler::Save() {
  const auto result = torch::autograd::profiler::disableProfiler();
  std::error_code error;
  std::filesystem::create_directories(trace_.parent_path(), error);
  if (const int descriptor = data::CreateAnew(trace_); descriptor >= 0) close(descriptor);  // does not follow links
  result->save(trace_.string());
  if (std::filesystem::file_size(trace_, error) == 0 || error) {
    throw StorageError("the profile could not be written to " + trace_.string(),
                       "is the run directory writable, and the disk not full?");
  }
}

void StepProfiler::WriteTable() {
  std::string text;
  for (const std::string& line : StepTable(timeline_.Seconds(), begun_->first, begun_->last, recorded_)) {
    print_(line);
    text += line + "\n";
  }
  checkpoint::WriteAtomically(std::filesystem::path(trace_).replace_extension(".txt"), text);
}

Phases::Phases(control::ControlPlane& control, StepProfiler& profiler, bool host_computes, bool alone)
    : control_(control), profiler_(profiler), times_(host_computes, SecondsSinceProcessStart()), alone_(alone) {}

}  // namespace dtrain::loop
