// Weights as torch.save writes them (.pt, .pth, .bin): a pickle and the raw storages that it refers to, in a zip
// archive or, before PyTorch 1.6, one after the other. Nothing in such a file is run (tensor_pickle.h), and every
// number in it is checked against the file before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/random_access_file.h"
#include "data/formats/tensor_pickle.h"

namespace dtrain::data {

// Training programs save several sets of weights in one file.
enum class WeightSet { kRaw, kAverage };

struct TorchTensor {
  std::string name;
  PickledTensor view;
};

struct TorchStorage {
  std::string dtype;   // as safetensors call it
  uint64_t begin = 0;  // of its bytes in the file
  uint64_t bytes = 0;
  std::optional<uint32_t> crc32;
};

// An open file. Const methods are safe to call from many threads at once.
class TorchFile {
 public:
  // Opens the file and reads what is in it. Of several dicts of tensors the preferred kind is taken, the other where
  // that is missing. Throws DataError that names the file and what is wrong with it.
  TorchFile(const std::string& path, WeightSet preferred);

  // Whether a file begins as one of these do; false where it cannot be read.
  static bool Recognises(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TorchTensor>& tensors() const { return tensors_; }  // no name twice
  const std::vector<TorchStorage>& storages() const { return storages_; }
  const std::string& taken() const { return taken_; }  // the key of the dict; empty: the file is one itself
  const std::vector<std::string>& not_taken() const { return not_taken_; }  // keys of other dicts of tensors

  // Copies a storage's bytes to `destination`. Throws DataError where they are not those that were written.
  void Read(size_t storage, void* destination) const;

 private:
  // The pickle of the dict, whose bytes are kept in `bytes`, and storages_ as it numbers them.
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
