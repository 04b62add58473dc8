// Leaves a record for docs/faults.md, like tests/matrix.py, for tests in C++.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace dtrain {

// `row`, `fault` and `bound` as in tests/matrix.py, without quotes; `cases` is how often the fault was tried. No record
// if the test has failed by now.
inline void RecordFault(int row, const std::string& fault, const std::string& bound, int64_t cases) {
  if (::testing::Test::HasFailure()) return;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "faults";
  std::filesystem::create_directories(folder);
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (char& letter : name) letter = letter == '/' ? '-' : letter;
  std::ofstream(folder / (name + ".json")) << "{\"row\":" << row << ",\"fault\":\"" << fault << "\",\"bound\":\""
                                           << bound << "\",\"cases\":" << cases << ",\"seconds\":null}\n";
}

}  // namespace dtrain
