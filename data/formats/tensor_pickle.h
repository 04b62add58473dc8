// Parses a pickle of tensors, as torch.save writes it, without trusting it. A pickle is a program that may call any
// function. This parser knows only the few instructions and names that weights need and turns them into inert values.
// It refuses everything else by name and never executes anything.
//
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
  kReal,      // its value is not needed, and not kept
  kText,      // text
  kBytes,     // text; also integers of more than 64 bits, as little-endian bytes
  kSequence,  // a list or a tuple; table
  kDict,      // a dict or an OrderedDict; table
  kName,      // one of the known module names; text
  kStorage,   // table
  kTensor,    // table
  kObject,    // a known object without weights: a device, a program's arguments
};

// A Python value; the comments above name the member that holds its content. Texts point into the bytes of the pickle.
// Lists, tensors and so on are in tables of the TensorPickle, because a value may contain itself and be contained any
// number of times: code that walks through values must not recurse into all of them.
struct PickledValue {
  PickledKind kind = PickledKind::kNone;
  int64_t number = 0;
  std::string_view text = {};
  size_t table = 0;  // position in the table of its kind
};

// A row of numbers that tensors are views of.
struct PickledStorage {
  std::string_view key;
  std::string_view dtype;  // in safetensors' notation: F32, BF16, …
  uint64_t elements = 0;
};

// A view of a storage. Every element lies within the storage, and the view has no more elements than the storage.
struct PickledTensor {
  size_t storage = 0;                   // position in storages()
  std::vector<int64_t> shape, strides;  // elements
  uint64_t offset = 0;                  // elements
};

class TensorPickle {
 public:
  // Parses the pickle at the front of `bytes`, which must outlive this object. Throws DataError, which names `path`, if
  // the pickle is damaged, hostile, or uses something unknown.
  TensorPickle(std::span<const uint8_t> bytes, const std::string& path);

  const PickledValue& value() const { return value_; }
  size_t size() const { return size_; }  // bytes of the pickle, including its STOP

  const std::vector<PickledStorage>& storages() const { return storages_; }  // each key once
  const PickledTensor& tensor(const PickledValue& tensor) const { return tensors_[tensor.table]; }
  // The values of a sequence; the keys and values of a dict, alternating.
  const std::vector<PickledValue>& items(const PickledValue& sequence_or_dict) const {
    return containers_[sequence_or_dict.table];
  }

 private:
  friend class PickleMachine;

  PickledValue value_;
  size_t size_ = 0;
  std::deque<std::vector<PickledValue>> containers_;  // a deque, so that references to them stay valid
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace dtrain::data
