// Tensors to and from safetensors files: the only format for weights and optimizer state, because it holds no code, can
// be checked before anything is allocated, and is read by every other framework.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/checkpoint/durable_file.h"

namespace dtrain::checkpoint {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Metadata = std::map<std::string, std::string>;

// Writes `tensors` (any device; strided and channels_last ones in contiguous logical order) into `file`. The bytes are
// a function of names, values and metadata alone: tensors are laid out by dtype (widest first), then by name, as the
// reference implementation does, with the header padded by spaces to 8 bytes. Dtypes: F64 F32 F16 BF16 I64 I32 I16 I8
// U8 BOOL. Throws StorageError when a name is there twice, a dtype has no counterpart, or the disk refuses.
void AppendSafetensors(DurableFile& file, const NamedTensors& tensors, const Metadata& metadata = {});

// The same into a file of its own, replaced atomically and durable on return.
void WriteSafetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata = {});

// The type that safetensors call so (F32, BF16, …); nullopt where it is not in the list above.
std::optional<at::ScalarType> ScalarTypeNamed(std::string_view dtype);

struct SafetensorsContent {
  NamedTensors tensors;  // contiguous, owned, on the host; sorted by name
  Metadata metadata;
};

// Reads a whole file. Throws DataError when it is missing, damaged or hostile, or has a dtype that is not in the list
// above; sizes are checked against the file before anything is allocated.
SafetensorsContent ReadSafetensors(const std::filesystem::path& path);

}  // namespace dtrain::checkpoint
