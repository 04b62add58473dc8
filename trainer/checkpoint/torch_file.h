// Tensors as torch.save writes a state_dict: a zip archive of a pickle and of raw storages. Only written here: a pickle
// is a program, and what reads one runs it.
#pragma once

#include <filesystem>
#include <string>

#include "trainer/checkpoint/safetensors.h"

namespace dtrain::checkpoint {

// Replaces `path` by a file that torch.load takes, its safe mode (weights_only=True) too: a dict of the tensors in
// their order; with `key` {key: that dict}. Tensors that share their memory here share it there. Throws StorageError
// when the disk refuses.
void WriteTorchFile(const std::filesystem::path& path, const NamedTensors& tensors, const std::string& key = "");

}  // namespace dtrain::checkpoint
