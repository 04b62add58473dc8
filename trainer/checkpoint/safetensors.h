// Writes tensors to safetensors files and reads them back. All weights and optimizer states are kept in this format,
// because it holds no code, can be checked before anything is allocated, and is read by every other framework.
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

// Appends `tensors` to `file`. They may be on any device and have any strides; elements are written in contiguous
// logical order. The bytes are a function of names, values and metadata alone: tensors are ordered by dtype (widest
// first), then by name, as in the reference implementation, and the header is padded by spaces to 8 bytes. Dtypes: F64
// F32 F16 BF16 I64 I32 I16 I8 U8 BOOL. Throws StorageError for a repeated name, another dtype or a failing disk.
void AppendSafetensors(DurableFile& file, const NamedTensors& tensors, const Metadata& metadata = {});

// Appends all but the elements, which the caller appends in that order. `tensors` may be on the meta device.
void AppendSafetensorsHeader(DurableFile& file, const NamedTensors& tensors, const Metadata& metadata = {});

// The same as a whole file, which is replaced atomically and durable on return.
void WriteSafetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata = {});

// Returns `metadata` with a checksum of `tensors` (names, types, shapes and elements), which ReadSafetensors compares
// where the file lies in a run.
Metadata WithChecksum(Metadata metadata, const NamedTensors& tensors);

// Returns the type that safetensors files name so (F32, BF16, …); empty if it is not in the list above.
std::optional<at::ScalarType> ScalarTypeNamed(std::string_view dtype);

struct SafetensorsContent {
  NamedTensors tensors;  // contiguous, owned, on the host; sorted by name
  Metadata metadata;
};

// Reads a whole file. Throws DataError if it is missing, damaged or hostile, or has a dtype that is not in the list
// above, or other tensors than those of its checksum. Sizes are checked against the file before anything is allocated.
SafetensorsContent ReadSafetensors(const std::filesystem::path& path);

}  // namespace dtrain::checkpoint
