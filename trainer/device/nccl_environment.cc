#include "trainer/device/nccl_environment.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>

#include "data/machine/thread.h"
#include "data/written_file.h"
#include "trainer/control/line_socket.h"

namespace dtrain::device {

EnvironmentSettings NcclEnvironment(const std::string& dump_folder, double comm_timeout_seconds, bool on_one_machine) {
  constexpr long long kMonitorLagSeconds = 30;
  EnvironmentSettings settings = {
      // The watchdog throws if a collective is late or has failed, and its exception ends the process (failure.h).
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"},
      {"TORCH_NCCL_ENABLE_MONITORING", "1"},
      // The monitor kills the process by SIGABRT, so it must wait until every orderly way to end has had its time.
      {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
       std::to_string(std::llround(control::ClampedSeconds(comm_timeout_seconds)) + kMonitorLagSeconds)},
      // Record the last collectives of each rank, which show afterwards which rank did not enter one.
      {"TORCH_FR_BUFFER_SIZE", "2000"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", dump_folder.empty() ? "0" : "1"},
      // How long the process waits for that file before it ends; a minute by default.
      {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "5000"},
  };
  if (on_one_machine) settings.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  if (dump_folder.empty()) return settings;
  for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
    settings.emplace_back(name, dump_folder + "/" + kFlightRecordPrefix);  // c10d appends the rank
  }
  return settings;
}

void Apply(const EnvironmentSettings& settings) {
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), /*replace=*/0);
}

void WriteFlightRecord(const std::filesystem::path& file, std::function<std::string()> record,
                       std::chrono::milliseconds patience) noexcept {
  try {
    auto written = std::make_shared<std::promise<void>>();
    auto done = written->get_future();
    data::Thread([file, written, record = std::move(record)] {
      try {
        const std::string text = record();
        if (const int descriptor = data::CreateAnew(file); descriptor >= 0) close(descriptor);  // no link is followed
        std::ofstream(file, std::ios::binary) << text;
      } catch (...) {  // the process is ending: an error has nobody to go to
      }
      written->set_value();
    }).detach();
    done.wait_for(patience);
  } catch (...) {
  }
}

}  // namespace dtrain::device
