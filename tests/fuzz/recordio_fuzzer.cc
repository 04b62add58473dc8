// A RecordIO file with its .idx: two bytes with the length of the .idx, the .idx, the .rec.
#include "tests/fuzz/scan_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  fuzz::FuzzInput input(data, size);
  const auto offsets = input.Take(input.TakeShort());
  const data::RecordFormat& format = *data::FindRecordFormat("recordio");
  fuzz::ScanEverything(format, input.rest(), format.KnownRecords(data::AsText(offsets), input.rest().size()));
  return 0;
}
