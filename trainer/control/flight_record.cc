#include "trainer/control/flight_record.h"

#include <unistd.h>

#include <fstream>
#include <future>
#include <memory>

#include "data/careful_open.h"
#include "data/machine/thread.h"

namespace dtrain::control {

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

}  // namespace dtrain::control
