#include "trainer/control/flight_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <iterator>
#include <stdexcept>

namespace dtrain::control {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct FlightRecord : testing::Test {
  const fs::path file = fs::temp_directory_path() / ("dtrain-flight-record-" + std::to_string(getpid()));
  ~FlightRecord() override { fs::remove(file); }
};

TEST_F(FlightRecord, IsWritten) {
  WriteFlightRecord(
      file, [] { return std::string("a\0b", 3); }, seconds(20));
  std::ifstream stream(file, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), std::string("a\0b", 3));
}

TEST_F(FlightRecord, IsGivenUpWhereItHangsOrFails) {
  std::promise<void> hanging, over;
  WriteFlightRecord(
      file,
      [&]() -> std::string {
        hanging.get_future().wait();
        over.set_value();
        return "";
      },
      milliseconds(1));
  hanging.set_value();
  over.get_future().wait();  // the thread uses these variables
  WriteFlightRecord(
      file, []() -> std::string { throw std::runtime_error("no record"); }, seconds(20));
  WriteFlightRecord(
      "/no/such/folder/file", [] { return "lost"; }, seconds(20));
}

}  // namespace
}  // namespace dtrain::control
