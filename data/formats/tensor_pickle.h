// A pickle of tensors, as torch.save writes one, read without trusting it. A pickle is a program that may call any
// function there is; here the few instructions and names that weights need are known and make inert values, everything
// else is refused by name, and nothing is ever run.
// Instructions: https://github.com/python/cpython/blob/main/Lib/pickletools.py (protocols 2 to 5)
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

enum class PickledKind : uint8_t {
  kNone,
  kBool,      // number
  kInteger,   // number
  kReal,      // which counts for nothing here, and is not kept
  kText,      // text
  kBytes,     // text; also integers of more than 64 bits, little-endian
  kSequence,  // a list or a tuple: table
  kDict,      // OrderedDicts too: table
  kName,      // one of the known names of modules: text
  kStorage,   // table
  kTensor,    // table
  kObject,    // something known to hold no weights: a device, a program's arguments
};

// A Python value. Texts point into the pickle's bytes; lists, tensors and so on are in tables of their TensorPickle,
// because a value may hold itself and be held any number of times: whoever walks through them must not follow them all.
struct PickledValue {
  PickledKind kind = PickledKind::kNone;
  int64_t number = 0;
  std::string_view text = {};
  size_t table = 0;  // the index
};

// Numbers in a row, by their key among the file's.
struct PickledStorage {
  std::string_view key;
  std::string_view dtype;  // as safetensors call it: F32, BF16, …
  uint64_t elements = 0;
};

// A view of a storage. Every element lies within it, and the view repeats none so often that it has more than the
// storage.
struct PickledTensor {
  size_t storage = 0;                   // the index
  std::vector<int64_t> shape, strides;  // elements
  uint64_t offset = 0;                  // elements
};

class TensorPickle {
 public:
  // Reads the pickle at the front of `bytes`, which must outlive this object. Throws DataError that names `path` where
  // it is damaged, hostile, or asks for what is not known here.
  TensorPickle(std::span<const uint8_t> bytes, const std::string& path);

  const PickledValue& value() const { return value_; }
  size_t size() const { return size_; }  // bytes that it has, up to and with its STOP

  const std::vector<PickledStorage>& storages() const { return storages_; }  // no key twice
  const PickledTensor& tensor(const PickledValue& tensor) const { return tensors_[tensor.table]; }
  // Of a sequence its values, of a dict key, value, key, value …
  const std::vector<PickledValue>& items(const PickledValue& sequence_or_dict) const {
    return containers_[sequence_or_dict.table];
  }

 private:
  friend class PickleMachine;

  PickledValue value_;
  size_t size_ = 0;
  std::deque<std::vector<PickledValue>> containers_;  // which stay where they are
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace dtrain::data
