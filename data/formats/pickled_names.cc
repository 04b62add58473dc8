#include "data/formats/pickled_names.h"

#include <algorithm>
#include <array>

namespace dtrain::data {
namespace {

struct StorageName {
  std::string_view name, dtype;
};
constexpr std::array kStorages = {
    StorageName{"torch.FloatStorage", "F32"}, StorageName{"torch.DoubleStorage", "F64"},
    StorageName{"torch.HalfStorage", "F16"},  StorageName{"torch.BFloat16Storage", "BF16"},
    StorageName{"torch.LongStorage", "I64"},  StorageName{"torch.IntStorage", "I32"},
    StorageName{"torch.ShortStorage", "I16"}, StorageName{"torch.CharStorage", "I8"},
    StorageName{"torch.ByteStorage", "U8"},   StorageName{"torch.BoolStorage", "BOOL"},
};

constexpr std::array kOthers = {kOrderedDict, kRebuildTensor1, kRebuildTensor2, kRebuildParameter,
                                kSize,        kDevice,         kNamespace};

// Dtypes may appear in a training program's arguments.
constexpr std::array<std::string_view, 14> kDtypes = {
    "torch.float32", "torch.float64", "torch.float16", "torch.bfloat16", "torch.int64", "torch.int32", "torch.int16",
    "torch.int8",    "torch.uint8",   "torch.bool",    "torch.float",    "torch.half",  "torch.long",  "torch.double"};

template <typename Names>
std::optional<std::string_view> Find(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional<std::string_view>(*found);
}

}  // namespace

std::optional<std::string_view> KnownPickledName(std::string_view name) {
  for (const StorageName& storage : kStorages)
    if (storage.name == name) return storage.name;
  if (const auto other = Find(kOthers, name)) return other;
  return Find(kDtypes, name);
}

std::optional<std::string_view> DtypeOfStorage(std::string_view name) {
  for (const StorageName& storage : kStorages)
    if (storage.name == name) return storage.dtype;
  return std::nullopt;
}

}  // namespace dtrain::data
