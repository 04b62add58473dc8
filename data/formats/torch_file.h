// Reads weights as torch.save writes them (.pt, .pth, .bin): a pickle and the raw storages that it refers to, in a zip
// archive or, before PyTorch 1.6, one after the other. Nothing in such a file is executed (tensor_pickle.h), and every
// number in it is checked against the file before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/tensor_pickle.h"
#include "data/storage.h"

namespace dtrain::data {

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
  const std::string& taken() const {
    return taken_;
  }  // key of the dict that was taken; empty if the file itself is that dict
  const std::vector<std::string>& not_taken() const { return not_taken_; }  // keys of the other dicts of tensors

  // Copies the bytes of a storage to `destination`, which has room for them. Throws DataError if they cannot be read or
  // their checksum is wrong.
  void Read(size_t storage, void* destination) const;

 private:
  // Both return the pickle of the outermost dict, whose bytes they keep in `bytes`, and fill storages_ in its order.
  TensorPickle OpenArchive(std::vector<uint8_t>& bytes);
  TensorPickle OpenLegacy(std::vector<uint8_t>& bytes);
  void Choose(const TensorPickle& pickle, WeightSet preferred);
  void TakeTensors(const TensorPickle& pickle, const PickledValue& dict);
  [[noreturn]] void Refuse(const std::string& reason, const std::string& hint) const;

  RandomAccessFile file_;
  std::vector<TorchTensor> tensors_;
  std::vector<TorchStorage> storages_;
  std::string taken_;
  std::vector<std::string> not_taken_;
};

}  // namespace dtrain::data
