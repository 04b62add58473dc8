// A safetensors file: its header, and the data set of `images` and `labels` in it. (Checkpoints and weights are read
// through the same SafetensorsFile; tests/trainer/checkpoint/safetensors_test.cc makes tensors of this corpus.)
#include "data/formats/safetensors_file.h"

#include <algorithm>

#include "data/error.h"
#include "data/formats/tensor_file.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

constexpr uint64_t kMostRead = 1 << 20;  // bytes; a tensor of no bytes may have any shape

void ReadTensors(const dtrain::data::SafetensorsFile& file) {
  for (const auto& [name, entry] : file.tensors()) {
    dtrain::fuzz::Require(entry.begin <= entry.end && entry.end <= file.data_bytes(), "a tensor leaves the file");
    std::vector<uint8_t> bytes(std::min(entry.bytes(), kMostRead));
    file.Read(entry.begin, bytes.size(), bytes.data());
  }
}

void ReadRows(const dtrain::data::TensorFile& file) {
  for (int64_t i = 0; i < std::min<int64_t>(file.size(), 16); ++i) {
    dtrain::fuzz::Require(file.Label(i) >= 0 && file.Label(i) < file.num_classes(), "a label is no class");
    file.Read(i);
    file.Location(i);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  const fuzz::MemoryFile file({data, size});
  try {
    ReadTensors(data::SafetensorsFile(file.path()));
    ReadRows(data::TensorFile(file.path()));
  } catch (const DataError&) {
    return 0;
  }
  return 0;
}
