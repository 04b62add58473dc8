// Builds pickles, archives and whole files by hand, as torch.save writes them, so that tests can also make malformed
// ones.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/little_endian.h"

namespace dtrain::data {

template <typename T>
std::string LittleEndianBytes(T value) {
  std::string bytes;
  AppendLittleEndian(value, bytes);
  return bytes;
}

// ---- Pieces of a pickle: each leaves one value on the stack ----

inline std::string PickledInt(int32_t value) { return "J" + LittleEndianBytes(value); }
inline std::string PickledText(const std::string& text) {
  return "X" + LittleEndianBytes(static_cast<uint32_t>(text.size())) + text;
}
inline std::string PickledTuple(const std::vector<std::string>& items) {
  std::string bytes = "(";
  for (const std::string& item : items) bytes += item;
  return bytes + "t";
}
inline std::string PickledInts(const std::vector<int32_t>& values) {
  std::vector<std::string> items;
  for (const int32_t value : values) items.push_back(PickledInt(value));
  return PickledTuple(items);
}
inline std::string PickledName(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string PickledCall(const std::string& function, const std::vector<std::string>& arguments) {
  return function + PickledTuple(arguments) + "R";
}
inline std::string PickledStorageOf(const std::string& type, const std::string& key, int32_t elements) {
  return PickledTuple({PickledText("storage"), PickledName("torch", type), PickledText(key), PickledText("cpu"),
                       PickledInt(elements)}) +
         "Q";
}
inline std::string PickledTensorOf(const std::string& storage, int32_t offset, const std::vector<int32_t>& shape,
                                   const std::vector<int32_t>& strides) {
  return PickledCall(PickledName("torch._utils", "_rebuild_tensor_v2"),
                     {storage, PickledInt(offset), PickledInts(shape), PickledInts(strides), "\x89",
                      PickledCall(PickledName("collections", "OrderedDict"), {})});
}
inline std::string PickledDict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string bytes = "}(";
  for (const auto& [name, value] : items) bytes += PickledText(name) + value;
  return bytes + "u";
}
inline std::string WholePickle(const std::string& value) { return "\x80\x02" + value + "."; }

// ---- Archives ----

struct ArchiveMember {
  std::string name, content;
  uint16_t method = 0;  // 0: stored
  bool has_wrong_sum = false;
};

// Returns a zip archive whose directory lists each member `entries` times.
inline std::string StoredArchive(const std::vector<ArchiveMember>& members, int entries = 1) {
  std::string bytes, directory;
  for (const ArchiveMember& member : members) {
    const auto* content = reinterpret_cast<const Bytef*>(member.content.data());
    const auto size = static_cast<uint32_t>(member.content.size());
    const auto sum = static_cast<uint32_t>(crc32_z(0, content, size)) + (member.has_wrong_sum ? 1U : 0U);
    const std::string shared = LittleEndianBytes<uint16_t>(0) + LittleEndianBytes(member.method) +
                               LittleEndianBytes<uint32_t>(0) + LittleEndianBytes(sum) + LittleEndianBytes(size) +
                               LittleEndianBytes(size) + LittleEndianBytes(static_cast<uint16_t>(member.name.size())) +
                               LittleEndianBytes<uint16_t>(0);
    for (int i = 0; i < entries; ++i) {
      directory += std::string("PK\x01\x02") + std::string(4, '\0') + shared + std::string(10, '\0') +
                   LittleEndianBytes(static_cast<uint32_t>(bytes.size())) + member.name;
    }
    bytes += std::string("PK\x03\x04") + std::string(2, '\0') + shared + member.name + member.content;
  }
  const auto count = static_cast<uint16_t>(members.size());
  return bytes + directory + "PK\x05\x06" + std::string(4, '\0') + LittleEndianBytes(count) + LittleEndianBytes(count) +
         LittleEndianBytes(static_cast<uint32_t>(directory.size())) +
         LittleEndianBytes(static_cast<uint32_t>(bytes.size())) + std::string(2, '\0');
}

// Returns a file of torch.save whose data.pkl holds this value, with the storage 0.
inline std::string TorchArchive(const std::string& value, const std::string& storage = std::string(16, '\1')) {
  return StoredArchive({{"x/data.pkl", WholePickle(value)}, {"x/byteorder", "little"}, {"x/data/0", storage}});
}

}  // namespace dtrain::data
