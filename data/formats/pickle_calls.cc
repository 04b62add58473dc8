// Pushes the result of a call of each known name, given its arguments.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "data/formats/pickle_machine.h"
#include "data/shown.h"

namespace dtrain::data {
namespace {

// The names in Python modules that a pickle of weights may use: those that torch.load's safe mode accepts and weights
// have, and those that training programs save beside them.
constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kRebuildTensor1 = "torch._utils._rebuild_tensor";
constexpr std::string_view kRebuildTensor2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kSize = "torch.Size";
constexpr std::string_view kDevice = "torch.device";
// Holds the command line in files of timm's and torchvision's training scripts. Its attributes are ignored.
constexpr std::string_view kNamespace = "argparse.Namespace";

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

// Returns the same name with static lifetime; empty if it is not known.
std::optional<std::string_view> KnownPickledName(std::string_view name) {
  for (const StorageName& storage : kStorages)
    if (storage.name == name) return storage.name;
  if (const auto other = Find(kOthers, name)) return other;
  return Find(kDtypes, name);
}

// Returns the dtype of a storage in safetensors' notation ("torch.FloatStorage" → F32); empty if the name is not that
// of a storage.
std::optional<std::string_view> DtypeOfStorage(std::string_view name) {
  for (const StorageName& storage : kStorages)
    if (storage.name == name) return storage.dtype;
  return std::nullopt;
}

constexpr size_t kMostDimensions = 64;
constexpr size_t kShownNameBytes = 80;

}  // namespace

void PickleMachine::PushName(std::string_view module, std::string_view name) {
  const std::string whole = std::string(module) + "." + std::string(name);
  const std::optional<std::string_view> known = KnownPickledName(whole);
  if (known) return PushText(PickledKind::kName, *known);
  const std::string shown = Shown(whole, kShownNameBytes);
  Refuse("it asks for " + shown + ", which is code, and dtrain never runs code from a file",
         "save what model.state_dict() returns, with torch.save or as safetensors; look at the file before that if it "
         "is not from someone you trust");
}

// NAME(*arguments)
void PickleMachine::Call(const std::vector<PickledValue>& name_and_arguments) {
  const PickledValue &name = name_and_arguments[0], &arguments = name_and_arguments[1];
  if (name.kind != PickledKind::kName || arguments.kind != PickledKind::kSequence)
    Damaged("it calls something that is not a function");
  const std::vector<PickledValue>& given = pickle_.containers_[arguments.table];
  const std::string_view what = name.text;
  if (what == kRebuildTensor2 || what == kRebuildTensor1) return PushTensor(given);
  if (what == kOrderedDict) return PushOrderedDict(given);
  if (what == kRebuildParameter && !given.empty() && given[0].kind == PickledKind::kTensor) return Push(given[0]);
  if (what == kSize && given.size() == 1 && given[0].kind == PickledKind::kSequence) return Push(given[0]);
  if (what == kDevice || what == kNamespace) return Push({.kind = PickledKind::kObject});
  Damaged("it calls " + std::string(what) + " with wrong arguments");
}

void PickleMachine::PushOrderedDict(const std::vector<PickledValue>& given) {
  std::vector<PickledValue> items;
  if (given.size() > 1 || (!given.empty() && given[0].kind != PickledKind::kSequence))
    Damaged("an OrderedDict that does not consist of pairs");
  if (!given.empty()) {
    for (const PickledValue& pair : pickle_.containers_[given[0].table]) {
      if (pair.kind != PickledKind::kSequence || pickle_.containers_[pair.table].size() != 2) {
        Damaged("an OrderedDict that does not consist of pairs");
      }
      for (const PickledValue& item : pickle_.containers_[pair.table]) {
        Count();
        items.push_back(item);
      }
    }
  }
  PushContainer(PickledKind::kDict, std::move(items));
}

// ('storage', type, key, location, elements[, view])
void PickleMachine::PushStorage(const PickledValue& id) {
  if (id.kind != PickledKind::kSequence) Damaged("a storage without a key");
  const std::vector<PickledValue>& parts = pickle_.containers_[id.table];
  const bool is_storage = parts.size() >= 5 && parts.size() <= 6 && parts[0].text == "storage" &&
                          parts[1].kind == PickledKind::kName && parts[2].kind == PickledKind::kText &&
                          parts[4].kind == PickledKind::kInteger && parts[4].number >= 0;
  if (!is_storage) Damaged("a storage that is not described as torch.save does");
  if (parts.size() == 6 && parts[5].kind != PickledKind::kNone) {
    Refuse("it shares storages as PyTorch before 0.4 did", "save it again with a newer PyTorch");
  }
  const std::optional<std::string_view> dtype = DtypeOfStorage(parts[1].text);
  if (!dtype) Damaged(std::string(parts[1].text) + " is not a storage type");
  const PickledStorage storage = {parts[2].text, *dtype, static_cast<uint64_t>(parts[4].number)};
  const auto [known, is_new] = storage_by_key_.emplace(storage.key, pickle_.storages_.size());
  if (is_new) {
    pickle_.storages_.push_back(storage);
  } else if (const auto& other = pickle_.storages_[known->second];
             other.dtype != storage.dtype || other.elements != storage.elements) {
    Damaged("the storage " + Shown(storage.key, kShownNameBytes) + " is described in two ways");
  }
  Push({.kind = PickledKind::kStorage, .table = known->second});
}

std::vector<int64_t> PickleMachine::Sizes(const PickledValue& value) {
  if (value.kind != PickledKind::kSequence) Damaged("a tensor without a shape");
  const auto& items = pickle_.containers_[value.table];
  if (items.size() > kMostDimensions) Damaged("a tensor of " + std::to_string(items.size()) + " dimensions");
  std::vector<int64_t> sizes;
  for (const PickledValue& item : items) {
    Count();  // they are kept for each tensor, even if thousands share one tuple
    if (item.kind != PickledKind::kInteger || item.number < 0) Damaged("a tensor with a size or stride below 0");
    sizes.push_back(item.number);
  }
  return sizes;
}

// (storage, offset, shape, strides[, requires_grad, hooks[, metadata]])
void PickleMachine::PushTensor(const std::vector<PickledValue>& given) {
  const bool is_tensor = given.size() >= 4 && given[0].kind == PickledKind::kStorage &&
                         given[1].kind == PickledKind::kInteger && given[1].number >= 0;
  if (!is_tensor) Damaged("a tensor that is not described as torch.save does");
  if (given.size() > 6 && given[6].kind != PickledKind::kNone) {
    Refuse("a tensor in it is a conjugate or negated view", "save it again after tensor.resolve_neg()");
  }
  PickledTensor tensor{.storage = given[0].table,
                       .shape = Sizes(given[2]),
                       .strides = Sizes(given[3]),
                       .offset = static_cast<uint64_t>(given[1].number)};
  RequireInside(tensor);
  pickle_.tensors_.push_back(std::move(tensor));
  Push({.kind = PickledKind::kTensor, .table = pickle_.tensors_.size() - 1});
}

void PickleMachine::RequireInside(const PickledTensor& tensor) const {
  if (tensor.shape.size() != tensor.strides.size()) Damaged("a tensor with more or fewer strides than dimensions");
  const uint64_t elements = pickle_.storages_[tensor.storage].elements;
  uint64_t count = 1, last = tensor.offset;
  bool fits = true;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    uint64_t reach = 0;
    const auto size = static_cast<uint64_t>(tensor.shape[i]), stride = static_cast<uint64_t>(tensor.strides[i]);
    fits = fits && !__builtin_mul_overflow(count, size, &count);
    fits = fits && (size == 0 ||
                    (!__builtin_mul_overflow(size - 1, stride, &reach) && !__builtin_add_overflow(last, reach, &last)));
  }
  if (fits && count == 0) return;
  if (!fits || last >= elements) Damaged("a tensor leaves its storage");
  if (count > elements) {
    Refuse("a tensor in it repeats its elements (a stride of 0)", "save it again after tensor.contiguous()");
  }
}

}  // namespace dtrain::data
