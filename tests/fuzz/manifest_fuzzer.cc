// The manifest of a checkpoint. If the first byte is even, the rest is its text. If it is odd, a manifest is made from
// the bytes and must survive being written and read.
#include "trainer/checkpoint/manifest.h"

#include "tests/fuzz/fuzz_input.h"
#include "trainer/errors.h"

namespace {

using namespace dtrain;

checkpoint::Manifest MadeOf(fuzz::FuzzInput& input) {
  checkpoint::Manifest manifest;
  manifest.step = input.TakeShort() - 32768;
  while (!input.empty()) {
    const auto name = input.Take(input.TakeByte() % 16), sha256 = input.Take(input.TakeByte() % 80);
    manifest.files[std::string(name.begin(), name.end())] = {.bytes = input.TakeShort(),
                                                             .sha256 = {sha256.begin(), sha256.end()}};
  }
  return manifest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const bool made = input.TakeByte() % 2 == 1;
  const std::string text = made ? checkpoint::ManifestText(MadeOf(input)) : std::string(input.text());
  try {
    const checkpoint::Manifest manifest = checkpoint::ParseManifest(text);
    fuzz::Require(checkpoint::ManifestText(manifest) == text, "what is read is not what is written");
  } catch (const StorageError&) {
    return 0;
  }
  return 0;
}
