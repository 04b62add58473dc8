// Writes and reads the files of torch.save: a pickle and raw storages. Reading executes nothing of the pickle.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/formats/torch_file.h"
#include "trainer/checkpoint/safetensors.h"

namespace dtrain::checkpoint {

// Replaces `path` by a file that torch.load reads, also in its safe mode (weights_only=True): an OrderedDict of the
// tensors like state_dict()'s; with `key` {key: that OrderedDict} and the fields of `beside`, an object of objects,
// lists, whole numbers, texts and null. Tensors that share their memory here share it there. Its first record has the
// name `mark`, which torch.load skips. Throws StorageError if the disk fails.
void WriteTorchFile(const std::filesystem::path& path, const NamedTensors& tensors, const std::string& mark,
                    const std::string& key = "",
                    const nlohmann::ordered_json& beside = nlohmann::ordered_json::object());

struct TorchFileContent {
  NamedTensors tensors;  // on the host, with the strides of the file; views of one storage share it here, too
  std::string taken;     // the key of the dict that they come from; empty: it is the whole file
  bool is_average;       // whether that is the key of averaged weights
  std::vector<std::string> not_taken;  // the keys of other dicts of tensors in the file
};

// Reads a file of torch.save. `preferred` and errors (DataError): see data::TorchFile.
TorchFileContent ReadTorchFile(const std::filesystem::path& path, data::WeightSet preferred);

}  // namespace dtrain::checkpoint
