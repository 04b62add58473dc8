// A RecordIO file with its .idx: two bytes with the length of the .idx, the .idx, the .rec.
#include "data/formats/recordio.h"

#include <sstream>

#include "tests/fuzz/scan_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  fuzz::FuzzInput input(data, size);
  const auto offsets = input.Take(input.TakeShort());
  std::istringstream index(std::string(offsets.begin(), offsets.end()));
  const auto known = data::ParseRecordIoIndex(index, input.rest().size());
  fuzz::ScanEverything(data::RecordIoFormat(), input.rest(), known);
  return 0;
}
