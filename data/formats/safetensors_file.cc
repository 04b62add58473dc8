#include "data/formats/safetensors_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/shallow_json.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kMostDimensions = 64;

[[noreturn]] void Refuse(const std::string& path, const std::string& reason) {
  throw DataError(path + " is not a valid safetensors file: " + reason,
                  "the file is damaged, incomplete or of another format");
}

// Whether a file begins like text in UTF-8. A header's length does not: that of 100 MB has zeros in its upper bytes.
bool IsText(std::span<const uint8_t> start) {
  constexpr uint8_t kDelete = 0x7f, kAfterLast = 0xf5;
  return std::ranges::all_of(start, [](uint8_t byte) {
    return (byte >= ' ' && byte < kAfterLast && byte != kDelete) || (byte >= '\t' && byte <= '\r');
  });
}

// Names come from the file and may have any length: messages show at most 80 bytes.
std::string Quoted(const std::string& name) { return "'" + (name.size() > 80 ? name.substr(0, 80) + "…" : name) + "'"; }

bool HoldsSizes(const nlohmann::json& list) {
  return list.is_array() && list.size() <= kMostDimensions && std::ranges::all_of(list, [](const auto& size) {
           return size.is_number_unsigned() && size.template get<uint64_t>() <= INT64_MAX;
         });
}

// Throws nlohmann::json::exception if a field is missing or is no text or list.
SafetensorsEntry EntryOf(const std::string& path, const std::string& name, const nlohmann::json& fields) {
  const nlohmann::json &shape = fields.at("shape"), &offsets = fields.at("data_offsets");
  if (fields.size() != 3 || !HoldsSizes(shape) || !HoldsSizes(offsets) || offsets.size() != 2) {
    Refuse(path, Quoted(name) + " has a bad shape, bad data_offsets or an unknown field");
  }
  return {.dtype = fields.at("dtype").get<std::string>(), .shape = shape, .begin = offsets[0], .end = offsets[1]};
}

// Returns the number of bytes that dtype and shape require; empty on overflow or for an unknown dtype.
std::optional<uint64_t> WantedBytes(const SafetensorsEntry& entry) {
  const std::optional<int64_t> element = SafetensorsElementSize(entry.dtype);
  if (!element) return std::nullopt;
  auto bytes = static_cast<uint64_t>(*element);
  for (const int64_t dimension : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes)) return std::nullopt;
  }
  return bytes;
}

// Returns what is wrong with the layout, or an empty string if every tensor lies within the data, has the size that its
// shape requires, and all tensors together fill the data without holes or overlaps.
std::string LayoutProblem(const std::map<std::string, SafetensorsEntry>& tensors, uint64_t data_bytes) {
  std::vector<std::pair<const SafetensorsEntry*, const std::string*>> by_position;
  for (const auto& [name, entry] : tensors) {
    if (!SafetensorsElementSize(entry.dtype)) return "unknown dtype " + Quoted(entry.dtype) + " of " + Quoted(name);
    if (entry.begin > entry.end || entry.end > data_bytes) {
      return Quoted(name) + " lies at bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end) +
             " of " + std::to_string(data_bytes);
    }
    if (WantedBytes(entry) != entry.bytes()) {
      return Quoted(name) + " has " + std::to_string(entry.bytes()) +
             " bytes, which is not what its dtype and shape need";
    }
    by_position.emplace_back(&entry, &name);
  }
  std::ranges::sort(by_position, {}, [](const auto& one) { return std::pair(one.first->begin, one.first->end); });
  uint64_t position = 0;
  for (const auto& [entry, name] : by_position) {
    if (entry->begin < position) return Quoted(*name) + " overlaps another tensor";
    if (entry->begin > position) return "there is a gap before " + Quoted(*name);
    position = entry->end;
  }
  if (position != data_bytes) return std::to_string(data_bytes - position) + " bytes at its end belong to no tensor";
  return "";
}

}  // namespace

std::optional<int64_t> SafetensorsElementSize(std::string_view dtype) {
  static const std::map<std::string_view, int64_t> kSizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}, {"C64", 8}};
  const auto found = kSizes.find(dtype);
  return found == kSizes.end() ? std::nullopt : std::optional(found->second);
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  if (file_.size() < 8) Refuse(path, "it has only " + std::to_string(file_.size()) + " bytes");
  uint8_t prefix[8];
  file_.Read(0, 8, prefix);
  const auto header_bytes = LoadLittleEndian<uint64_t>(prefix);
  if (IsText(prefix)) {
    throw DataError(path + " is a text, not a safetensors file",
                    "tensors: fetch the file again (Git LFS: git lfs pull); a table of sentences: name the "
                    "file train.csv and give its folder; other text: dtrain_data tokenize");
  }
  if (header_bytes > kMostHeaderBytes) Refuse(path, "a header of " + std::to_string(header_bytes) + " bytes");
  if (header_bytes > file_.size() - 8) {
    Refuse(path, "a header of " + std::to_string(header_bytes) + " bytes in a file of " + std::to_string(file_.size()));
  }
  data_offset_ = 8 + header_bytes;
  data_bytes_ = file_.size() - data_offset_;

  std::string header(header_bytes, '\0');
  file_.Read(8, header_bytes, header.data());
  try {
    for (const auto& [name, fields] : ParseShallow(header).get<std::map<std::string, nlohmann::json>>()) {
      if (name == "__metadata__") {
        fields.get_to(metadata_);
      } else {
        tensors_.emplace(name, EntryOf(path, name, fields));
      }
    }
  } catch (const nlohmann::json::exception& error) {
    Refuse(path, "its header" + WhyNotJson(error));
  }
  if (const std::string problem = LayoutProblem(tensors_, data_bytes_); !problem.empty()) Refuse(path, problem);
}

void SafetensorsFile::Read(uint64_t begin, uint64_t size, void* destination) const {
  if (begin > data_bytes_ || size > data_bytes_ - begin) {
    throw DataError(path() + ": bytes " + std::to_string(begin) + " + " + std::to_string(size) +
                    " are beyond the data section of " + std::to_string(data_bytes_));
  }
  file_.Read(data_offset_ + begin, size, destination);
}

}  // namespace dtrain::data
