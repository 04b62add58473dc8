#include "data/formats/safetensors_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "data/error.h"
#include "data/formats/little_endian.h"

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

// Parses the header as a stream of events rather than into a tree. A valid header has three levels; anything deeper (a
// million brackets, say) is refused where it begins.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
  std::string error;

  bool null() override { return Fail("null in the header"); }
  bool boolean(bool /*value*/) override { return Fail("a boolean in the header"); }
  bool number_integer(number_integer_t /*value*/) override { return Fail("a negative number in the header"); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return Fail("the number " + text.substr(0, 40) + " is not a 64-bit integer");
  }
  bool binary(binary_t& /*value*/) override { return Fail("binary data in the header"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape && entry_.shape.size() < kMostDimensions && value <= INT64_MAX) {
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets && offsets_.size() < 2) {
      offsets_.push_back(value);
      return true;
    }
    return Fail("an unexpected number for " + Quoted(name_));
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return metadata.emplace(field_, std::move(value)).second || Fail("a repeated key");
    if (place_ != Place::kTensor || field_ != "dtype") return Fail("unexpected text for " + Quoted(name_));
    entry_.dtype = std::move(value);
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && name_ == "__metadata__") {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      entry_ = {};
      offsets_.clear();
      fields_.clear();
    } else {
      return Fail("an unexpected object in " + Quoted(name_));
    }
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::kTop) {
      if (!names_.insert(value).second) return Fail("the tensor " + Quoted(value) + " is there twice");
      name_ = std::move(value);
      return true;
    }
    field_ = std::move(value);
    if (place_ == Place::kMetadata) return true;
    if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") {
      return Fail("unknown field " + Quoted(field_) + " of " + Quoted(name_));
    }
    return fields_.insert(field_).second || Fail("the field " + field_ + " of " + Quoted(name_) + " is there twice");
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (fields_.size() != 3 || offsets_.size() != 2) {
        return Fail(Quoted(name_) + " lacks dtype, shape or two data_offsets");
      }
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
      tensors.emplace(name_, std::move(entry_));
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::kTensor || field_ == "dtype") return Fail("an unexpected array in " + Quoted(name_));
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*what*/) override {
    return Fail("its header is not JSON (at byte " + std::to_string(position) + ")");
  }

  bool complete() const { return place_ == Place::kEnd; }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Fail(std::string reason) {
    error = std::move(reason);
    return false;
  }

  Place place_ = Place::kStart;
  std::string name_, field_;
  std::set<std::string> names_, fields_;
  SafetensorsEntry entry_;
  std::vector<uint64_t> offsets_;
};

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
  if (header.empty() || header.front() != '{') Refuse(path, "its header is not a JSON object");
  HeaderEvents events;
  const bool parsed = nlohmann::json::sax_parse(header, &events);
  if (!parsed || !events.complete()) Refuse(path, events.error.empty() ? "an incomplete header" : events.error);
  tensors_ = std::move(events.tensors);
  metadata_ = std::move(events.metadata);
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
