// Tensors as torch.save writes a state_dict: a pickle, which is never run here, and raw storages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/formats/torch_file.h"
#include "trainer/checkpoint/safetensors.h"

namespace dtrain::checkpoint {

// Replaces `path` by a file that torch.load takes, its safe mode (weights_only=True) too: an OrderedDict of the
// tensors, as state_dict() is one; with `key` {key: that OrderedDict}. Tensors that share their memory here share it
// there. Throws StorageError when the disk refuses.
void WriteTorchFile(const std::filesystem::path& path, const NamedTensors& tensors, const std::string& key = "");

struct TorchFileContent {
  NamedTensors tensors;  // on the host, with the strides that they were saved with; views of one storage stay that
  std::string taken;     // the key of the dict that they were in; empty: the file is one itself
  std::vector<std::string> not_taken;  // keys of other dicts of tensors
};

// Reads a file that torch.save has written. Throws DataError as data::TorchFile does.
TorchFileContent ReadTorchFile(const std::filesystem::path& path, data::WeightSet preferred);

}  // namespace dtrain::checkpoint
