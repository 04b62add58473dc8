#include "data/formats/record_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/formats/crc32c.h"
#include "data/formats/in_parallel.h"
#include "data/formats/little_endian.h"
#include "data/sha256.h"
#include "data/shallow_json.h"
#include "data/storage.h"
#include "data/text/utf8.h"
#include "data/written_file.h"

namespace dtrain::data {
namespace {

constexpr std::string_view kIndexMagic = "DTINDEX1";
constexpr size_t kFixedBytes = 16;  // the magic and the length of the JSON
constexpr size_t kCrcBytes = 4;

static_assert(sizeof(IndexEntry) == 24, "entries are stored as they are in memory");

// Names on disk need not be UTF-8, but JSON has to be: each byte is kept as the code point of the same number.
std::string Latin1ToUtf8(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) AppendUtf8(static_cast<uint8_t>(byte), text);
  return text;
}

std::string Utf8ToLatin1(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += CharacterBytes(text[i])) {
    bytes += static_cast<char>(CodePointAt(text.data() + i));
  }
  return bytes;
}

nlohmann::json HeadOf(const RecordIndex& index) {
  auto files = nlohmann::json::array(), class_names = nlohmann::json::array();
  for (const IndexedFile& file : index.files) files.push_back({Latin1ToUtf8(file.name), file.bytes, file.modified_ns});
  for (const std::string& name : index.class_names) class_names.push_back(Latin1ToUtf8(name));
  nlohmann::json head = {{"format", index.format},           {"fingerprint", index.fingerprint},
                         {"class_names", class_names},       {"files", std::move(files)},
                         {"ignored", index.ignored},         {"records", index.records.size()},
                         {"name_bytes", index.names.size()}, {"values", index.values.size()}};
  for (const std::string& name : index.cut) head["cut"].push_back(Latin1ToUtf8(name));
  return head;
}

// Checks that all entries point into the files, names and classes of the index, so that a malformed file never causes a
// read out of bounds.
bool IsConsistent(const RecordIndex& index) {
  const bool is_folder = index.format == kImageFolder;
  if (index.names.empty() == is_folder || (is_folder && index.names.back() != '\0')) return false;
  uint64_t values = 0;
  for (const IndexEntry& entry : index.records) values += static_cast<uint64_t>(std::max(0, entry.label));
  const size_t dot = index.format.find('.');
  const bool are_classes =
      dot != std::string::npos && index.format.substr(dot + 1) == FactsOf(LabelKind::kSeveral).name;
  const auto fits = [are_classes](float value) {
    return are_classes ? value >= 0 && value <= kMostClass && value == std::floor(value) : std::isfinite(value);
  };
  if (index.values.size() != (dot == std::string::npos ? 0 : values)) return false;
  if (!std::ranges::all_of(index.values, fits)) return false;
  return std::all_of(index.records.begin(), index.records.end(), [&](const IndexEntry& entry) {
    if (entry.file >= index.files.size() || entry.label < -1) return false;
    if (is_folder) {
      return entry.label >= 0 && entry.offset < index.names.size() &&
             entry.label < static_cast<int64_t>(index.class_names.size());
    }
    const int64_t bytes = index.files[entry.file].bytes;
    return bytes >= 0 && entry.offset <= uint64_t(bytes) && entry.bytes <= uint64_t(bytes) - entry.offset;
  });
}

}  // namespace

std::string IndexFormat(const std::string& format, LabelKind kind) {
  return kind == LabelKind::kClass ? format : format + "." + FactsOf(kind).name;
}

std::string SerializeIndex(const RecordIndex& index) {
  const std::string text = HeadOf(index).dump();

  std::string bytes(kIndexMagic);
  bytes.reserve(kFixedBytes + text.size() + index.records.size() * sizeof(IndexEntry) + index.names.size() +
                index.values.size() * sizeof(float) + kCrcBytes);
  AppendLittleEndian<uint64_t>(text.size(), bytes);
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(index.records.data()), index.records.size() * sizeof(IndexEntry));
  bytes += index.names;
  bytes.append(reinterpret_cast<const char*>(index.values.data()), index.values.size() * sizeof(float));
  AppendLittleEndian(Crc32c(bytes.data(), bytes.size()), bytes);
  return bytes;
}

std::optional<RecordIndex> ParseIndex(std::string_view bytes) {
  if (bytes.size() < kFixedBytes + kCrcBytes || !bytes.starts_with(kIndexMagic)) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - kCrcBytes);
  if (Crc32c(body.data(), body.size()) != LoadLittleEndian<uint32_t>(body.data() + body.size())) return std::nullopt;
  const auto head_bytes = LoadLittleEndian<uint64_t>(bytes.data() + kIndexMagic.size());
  if (head_bytes > body.size() - kFixedBytes) return std::nullopt;

  RecordIndex index;
  uint64_t records = 0, name_bytes = 0, values = 0;
  try {
    const auto json = ParseShallow(std::string(body.substr(kFixedBytes, head_bytes)));
    json.at("format").get_to(index.format);
    json.at("fingerprint").get_to(index.fingerprint);
    for (const std::string name : json.at("class_names")) index.class_names.push_back(Utf8ToLatin1(name));
    for (const auto& file : json.at("files")) {
      index.files.push_back({Utf8ToLatin1(file.at(0)), file.at(1).get<int64_t>(), file.at(2).get<int64_t>()});
    }
    // An old index of a folder, without `ignored`, may contain files that are not data.
    if (index.format == kImageFolder) json.at("ignored").get_to(index.ignored);
    records = json.at("records").get<uint64_t>();
    name_bytes = json.at("name_bytes").get<uint64_t>();
    values = json.value("values", uint64_t{0});
    for (const std::string name : json.value("cut", nlohmann::json::array())) index.cut.push_back(Utf8ToLatin1(name));
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  const std::string_view rest = body.substr(kFixedBytes + head_bytes);
  if (records > rest.size() / sizeof(IndexEntry) || values > rest.size() / sizeof(float)) return std::nullopt;
  const uint64_t others = records * sizeof(IndexEntry) + values * sizeof(float);
  if (others > rest.size() || rest.size() - others != name_bytes) return std::nullopt;
  index.records.resize(records);
  if (records > 0) std::memcpy(index.records.data(), rest.data(), records * sizeof(IndexEntry));
  index.names = rest.substr(records * sizeof(IndexEntry), name_bytes);
  index.values.resize(values);
  if (values > 0)
    std::memcpy(index.values.data(), rest.data() + (rest.size() - values * sizeof(float)), values * sizeof(float));
  return IsConsistent(index) ? std::optional(std::move(index)) : std::nullopt;
}

std::optional<RecordIndex> LoadIndex(const std::string& path) {
  if (!Exists(path)) return std::nullopt;
  try {
    // A file without the magic is not read as a whole: it may have any size.
    if (AsText(ReadBeginning(path, kIndexMagic.size())) != kIndexMagic) return std::nullopt;
    return ParseIndex(AsText(ReadWholeFile(path)));
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::string SaveIndex(const std::string& path, const RecordIndex& index) {
  if (!IsWritable(path)) return "cannot write " + path + ": data are only read there";
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  try {
    PublishFile(path, SerializeIndex(index), OwnEnding(".tmp"));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

RecordIndex FreshIndex(const KeptIndex& kept, const std::string& format,
                       const std::function<bool(const RecordIndex& old)>& is_fresh,
                       const std::function<RecordIndex(const std::optional<RecordIndex>& old)>& make) {
  std::optional<RecordIndex> old = LoadIndex(kept.path);
  if (old && old->format != format) old.reset();
  if (old && !kept.rebuild && is_fresh(*old)) return std::move(*old);
  RecordIndex index = make(old);
  const std::string problem = kept.keep ? SaveIndex(kept.path, index) : "";
  if (!problem.empty() && kept.not_kept) kept.not_kept(problem);
  return index;
}

std::string IndexPath(const std::string& data_dir, const std::string& index_dir, const std::string& split,
                      const std::string& format) {
  const std::string name = split + "." + format + ".index";
  if (index_dir.empty()) return data_dir + "/" + name;
  // Several data sets may share the folder.
  std::error_code ignored;
  const std::string identity = std::filesystem::weakly_canonical(data_dir, ignored).string();
  return index_dir + "/" + Sha256Of(identity).substr(0, 16) + "-" + name;
}

std::vector<IndexedFile> StatFiles(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<IndexedFile> files(names.size());
  InParallel(names.size(), [&](size_t i) {
    const PathStatus status = Stat(folder + "/" + names[i]);
    files[i] = {names[i], status.problem.empty() ? static_cast<int64_t>(status.bytes) : -1, status.modified_ns};
  });
  return files;
}

}  // namespace dtrain::data
