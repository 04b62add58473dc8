// Reads weights as torch.save writes them (.pt, .pth, .bin): a pickle and the raw storages that it refers to, in a zip
// archive or, before PyTorch 1.6, one after the other. Nothing in such a file is executed, and every number
// in it is checked against the file before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/storage.h"

namespace dtrain::data {

// ---- The archive ----
//
// Finds the members of a zip archive without compression, as torch.save writes it: a tensor is then a range of bytes of
// the file and can be read in place, without decompression.
//
// Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
struct StoredMember {
  uint64_t begin = 0;  // offset of its bytes in the file
  uint64_t size = 0;
  uint32_t crc32 = 0;
};

// Returns all members by name. Throws DataError, which names `path` and what is wrong with it, if a member is
// compressed or encrypted, leaves the file or overlaps another, or if a name occurs twice.
std::map<std::string, StoredMember> ReadStoredZip(const ReadableBytes& bytes, const std::string& path);

// ---- The pickle ----
//
// Parses a pickle of tensors, as torch.save writes it, without trusting it. A pickle is a program that may call any
// function. This parser knows only the few instructions and names that weights need and turns them into inert values.
// It refuses everything else by name and never executes anything.
//
// Instructions: https://github.com/python/cpython/blob/main/Lib/pickletools.py (protocols 2 to 5)
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
  kObject,    // a known object without weights: a device, a counter, a program's arguments; table, of its attributes
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
  // The values of a sequence; the keys and values of a dict or of an object's attributes, alternating.
  const std::vector<PickledValue>& items(const PickledValue& container) const { return containers_[container.table]; }

 private:
  friend class PickleMachine;

  PickledValue value_;
  size_t size_ = 0;
  std::deque<std::vector<PickledValue>> containers_;  // a deque, so that references to them stay valid
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
};

// ---- The file ----

// The kind of weights: training programs save the trained ones and their moving average in one file.
enum class WeightSet { kRaw, kAverage };

struct TorchTensor {
  std::string name;
  PickledTensor view;
};

struct TorchStorage {
  std::string dtype;   // in safetensors' notation: F32, BF16, …
  uint64_t begin = 0;  // offset of its bytes in the file
  uint64_t bytes = 0;
  std::optional<uint32_t> crc32;
};

// An open file. Const methods are safe to call from many threads at once.
class TorchFile {
 public:
  // Opens the file and parses everything except the storages. If it has several dicts of tensors, takes one of the
  // preferred kind, or of the other kind if that is missing. Throws DataError, which names the file and what is wrong
  // with it.
  TorchFile(const std::string& path, WeightSet preferred);

  // Whether a file begins as torch.save's files do; false if it cannot be read.
  static bool Recognises(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TorchTensor>& tensors() const { return tensors_; }  // each name once
  const std::vector<TorchStorage>& storages() const { return storages_; }
  // The key of the dict that was taken, empty if the file itself is that dict, and whether it is one of averaged
  // weights.
  const std::string& taken() const { return taken_; }
  bool took_average() const;
  const std::vector<std::string>& not_taken() const { return not_taken_; }  // keys of the other dicts of tensors
  // The numbers, truths and texts with which a training program says beside the weights what they are of, a JSON
  // object; empty: there are none.
  const std::string& arguments() const { return arguments_; }

  // Copies the bytes of a storage to `destination`, which has room for them. Throws DataError if they cannot be read or
  // their checksum is wrong.
  void Read(size_t storage, void* destination) const;

 private:
  // Both return the pickle of the outermost dict, whose bytes they keep in `bytes`, and fill storages_ in its order.
  TensorPickle OpenArchive(std::vector<uint8_t>& bytes);
  TensorPickle OpenLegacy(std::vector<uint8_t>& bytes);
  void Choose(const TensorPickle& pickle, WeightSet preferred);
  void KeepArguments(const TensorPickle& pickle);
  void TakeTensors(const TensorPickle& pickle, const PickledValue& dict);
  [[noreturn]] void Refuse(const std::string& reason, const std::string& hint) const;

  RandomAccessFile file_;
  std::vector<TorchTensor> tensors_;
  std::vector<TorchStorage> storages_;
  std::string taken_;
  std::vector<std::string> not_taken_;
  std::string arguments_;
};

}  // namespace dtrain::data
