// A tar of samples. If the first byte is odd, the headers' checksums are corrected first, because mutations break them.
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/formats/tar.h"
#include "tests/fuzz/scan_everything.h"

namespace {

constexpr size_t kChecksumAt = 148, kMagicAt = 257;

void FixChecksums(std::vector<uint8_t>& archive) {
  for (size_t at = 0; at + dtrain::data::kTarBlock <= archive.size(); at += dtrain::data::kTarBlock) {
    uint8_t* const block = &archive[at];
    if (std::memcmp(block + kMagicAt, "ustar", 5) != 0) continue;
    std::memset(block + kChecksumAt, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < dtrain::data::kTarBlock; ++i) sum += block[i];
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::memcpy(block + kChecksumAt, text, 7);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  fuzz::FuzzInput input(data, size);
  const bool fix = input.TakeByte() % 2 == 1;
  std::vector<uint8_t> archive(input.rest().begin(), input.rest().end());
  if (fix) FixChecksums(archive);
  fuzz::ScanEverything(*data::FindRecordFormat("webdataset"), archive);
  return 0;
}
