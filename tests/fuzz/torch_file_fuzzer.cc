// Files of torch.save. The first byte says whether the rest is a whole file, a pickle alone (which in an archive has a
// checksum that hardly any mutation survives), or the list of an archive's members.
#include "data/formats/torch_file.h"

#include <algorithm>
#include <vector>

#include "data/error.h"
#include "data/formats/safetensors_file.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace dtrain;  // NOLINT(google-build-using-namespace)

uint64_t Reach(const data::PickledTensor& tensor) {
  uint64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) return 0;
    last += static_cast<uint64_t>(tensor.shape[i] - 1) * static_cast<uint64_t>(tensor.strides[i]);
  }
  return last + 1;
}

void ReadFile(const std::string& path, data::WeightSet preferred) {
  const data::TorchFile file(path, preferred);
  for (const data::TorchTensor& tensor : file.tensors()) {
    const data::TorchStorage& storage = file.storages().at(tensor.view.storage);
    const auto width = static_cast<uint64_t>(data::SafetensorsElementSize(storage.dtype).value());
    fuzz::Require(Reach(tensor.view) <= storage.bytes / width, "a tensor leaves its storage");
    std::vector<uint8_t> bytes(storage.bytes);
    file.Read(tensor.view.storage, bytes.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const uint8_t kind = input.TakeByte();
  try {
    if (kind % 3 == 1) {
      const std::string path = "pickle";
      const data::TensorPickle pickle(input.rest(), path);
      fuzz::Require(pickle.size() <= input.rest().size(), "a pickle is longer than its bytes");
      for (const auto& storage : pickle.storages()) fuzz::Require(!storage.dtype.empty(), "a storage of no dtype");
    } else if (kind % 3 == 2) {
      for (const auto& [name, member] : data::ReadStoredZip(data::MemoryBytes(input.rest()), "archive")) {
        fuzz::Require(member.begin + member.size <= input.rest().size(), "a member leaves its archive");
      }
    } else {
      const fuzz::MemoryFile file(input.rest());
      data::TorchFile::Recognises(file.path());
      ReadFile(file.path(), kind / 3 % 2 == 0 ? data::WeightSet::kRaw : data::WeightSet::kAverage);
    }
  } catch (const DataError&) {
    return 0;
  }
  return 0;
}
