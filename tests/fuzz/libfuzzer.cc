// libFuzzer's program for all targets: the environment variable FUZZ_TARGET says which.
#include <cstdlib>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const dtrain::fuzz::Target target = dtrain::fuzz::Targets().at(std::getenv("FUZZ_TARGET"));
  target({data, size});
  return 0;
}
