// A TFRecord file. If the first byte is even, the rest is the file. If it is odd, pieces with a length of two bytes
// each are put into valid frames, because no mutation produces a correct CRC.
#include "data/formats/tfrecord.h"

#include "tests/fuzz/scan_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  const data::RecordFormat& format = *data::FindRecordFormat("tfrecord");
  fuzz::FuzzInput input(data, size);
  if (input.TakeByte() % 2 == 0) {
    fuzz::ScanEverything(format, input.rest());
    return 0;
  }
  std::string file;
  while (!input.empty()) {
    const auto piece = input.Take(input.TakeShort());
    file += data::FrameTfRecord(data::AsText(piece));
  }
  fuzz::ScanEverything(format, data::AsBytes(file));
  return 0;
}
