// Pushes the result of a call of each known name, given its arguments.
#include <optional>
#include <utility>

#include "data/formats/pickle_machine.h"
#include "data/formats/pickled_names.h"
#include "data/shown.h"

namespace dtrain::data {
namespace {

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
void PickleMachine::Call(const PickledValue& name, const PickledValue& arguments) {
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
