#include "trainer/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "data/formats/safetensors_file.h"
#include "data/outputs.h"
#include "data/sha256.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

struct Dtype {
  at::ScalarType type;
  std::string_view name;
};
// In the order in which the reference implementation lays out tensors, so that every tensor is aligned.
constexpr std::array kDtypes = {
    Dtype{at::kLong, "I64"},      Dtype{at::kDouble, "F64"}, Dtype{at::kFloat, "F32"}, Dtype{at::kInt, "I32"},
    Dtype{at::kBFloat16, "BF16"}, Dtype{at::kHalf, "F16"},   Dtype{at::kShort, "I16"}, Dtype{at::kChar, "I8"},
    Dtype{at::kByte, "U8"},       Dtype{at::kBool, "BOOL"},
};

constexpr char kChecksum[] = "tensors_sha256";  // in the metadata

// A tensor that is to be written.
struct Entry {
  const std::string* name;
  const at::Tensor* tensor;
  size_t dtype;  // index into kDtypes
  size_t bytes;
};

size_t DtypeOf(const std::string& name, const at::Tensor& tensor) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (tensor.defined() && tensor.layout() == at::kStrided && tensor.scalar_type() == kDtypes[i].type) return i;
  }
  throw StorageError("tensor '" + name + "' cannot be saved: " +
                     (tensor.defined() ? "a safetensors file has no type " + std::string(tensor.toString())
                                       : std::string("it is undefined")));
}

std::vector<Entry> InFileOrder(const NamedTensors& tensors) {
  std::vector<Entry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") throw StorageError("a tensor cannot be named '__metadata__'");
    const size_t dtype = DtypeOf(name, tensor);
    entries.push_back({&name, &tensor, dtype, static_cast<size_t>(tensor.numel()) * tensor.element_size()});
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.dtype != b.dtype ? a.dtype < b.dtype : *a.name < *b.name;
  });
  return entries;
}

std::string HeaderOf(const std::vector<Entry>& entries, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const Entry& entry : entries) {
    if (header.contains(*entry.name)) throw StorageError("two tensors are named '" + *entry.name + "'");
    header[*entry.name] = {{"dtype", kDtypes[entry.dtype].name},
                           {"shape", entry.tensor->sizes().vec()},
                           {"data_offsets", {offset, offset + entry.bytes}}};
    offset += entry.bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Does not depend on the order of `tensors`.
std::string ChecksumOf(NamedTensors tensors) {
  std::ranges::sort(tensors, {}, [](const auto& tensor) -> const std::string& { return tensor.first; });
  data::Sha256 sha256;
  for (const auto& [name, tensor] : tensors) {
    sha256.UpdateText(name).UpdateText(kDtypes.at(DtypeOf(name, tensor)).name);
    for (const int64_t size : tensor.sizes()) sha256.UpdateInteger(size);
    const at::Tensor elements = tensor.detach().to(at::kCPU).contiguous();
    sha256.Update(elements.const_data_ptr(), elements.nbytes());
  }
  return sha256.Hex();
}

at::ScalarType TypeNamed(const std::string& dtype, const std::string& tensor, const std::string& path) {
  if (const auto type = ScalarTypeNamed(dtype)) return *type;
  throw DataError(path + ": tensor '" + tensor + "' has dtype " + dtype + ", which is not supported");
}

}  // namespace

std::optional<at::ScalarType> ScalarTypeNamed(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.type;
  }
  return std::nullopt;
}

void AppendSafetensorsHeader(DurableFile& file, const NamedTensors& tensors, const Metadata& metadata) {
  const std::string header = HeaderOf(InFileOrder(tensors), metadata);
  const uint64_t header_bytes = header.size();
  std::string head(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  file.Append(head + header);
}

void AppendSafetensors(DurableFile& file, const NamedTensors& tensors, const Metadata& metadata) {
  AppendSafetensorsHeader(file, tensors, metadata);
  for (const Entry& entry : InFileOrder(tensors)) {
    const at::Tensor tensor = entry.tensor->detach().to(at::kCPU).contiguous();
    file.Append(tensor.const_data_ptr(), entry.bytes);
  }
}

void WriteSafetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  WriteAtomically(path, [&](DurableFile& file) { AppendSafetensors(file, tensors, metadata); });
}

Metadata WithChecksum(Metadata metadata, const NamedTensors& tensors) {
  metadata[kChecksum] = ChecksumOf(tensors);
  return metadata;
}

SafetensorsContent ReadSafetensors(const std::filesystem::path& path) {
  const data::SafetensorsFile file(path.string());
  SafetensorsContent content;
  content.metadata = file.metadata();
  for (const auto& [name, entry] : file.tensors()) {
    const at::ScalarType type = TypeNamed(entry.dtype, name, file.path());
    at::Tensor tensor;
    try {
      tensor = at::empty(entry.shape, at::TensorOptions().dtype(type));
    } catch (const c10::Error& error) {  // even an empty tensor may have a shape that LibTorch refuses
      throw DataError(file.path() + ": tensor '" + name + "': " + error.what_without_backtrace());
    }
    if (tensor.nbytes() != entry.bytes()) throw DataError(file.path() + ": tensor '" + name + "' has a wrong size");
    if (entry.bytes() > 0) file.Read(entry.begin, entry.bytes(), tensor.mutable_data_ptr());
    content.tensors.emplace_back(name, std::move(tensor));
  }
  // Elsewhere people may have changed the tensors, and kept the metadata.
  const bool is_of_run = data::IsRun(path.parent_path().string());
  const auto checksum = content.metadata.find(kChecksum);
  if (is_of_run && checksum != content.metadata.end() && checksum->second != ChecksumOf(content.tensors)) {
    throw DataError(
        file.path() + " is damaged: its tensors are not those that were written (SHA-256)",
        "take it from a backup; a run's last state is in its checkpoints (--weights=last). If it was changed on "
        "purpose, move it out of the run");
  }
  return content;
}

}  // namespace dtrain::checkpoint
