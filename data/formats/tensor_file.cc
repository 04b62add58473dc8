#include "data/formats/tensor_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/labels.h"
#include "data/joined.h"
#include "data/sha256.h"

namespace dtrain::data {

namespace {

constexpr char kWantedImages[] =
    "expected `images` (float32 N×3×H×W, or uint8 N×3×H×W or N×H×W×3) and `labels` (int64 or int32, N)";

constexpr int64_t kMostRowBytes = int64_t{1} << 30;

const SafetensorsEntry& Entry(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) throw DataError(file.path() + " has no tensor `" + name + "`", kWantedImages);
  return found->second;
}

std::string Describe(const SafetensorsEntry& entry) {
  return entry.dtype + " (" + Joined(entry.shape, ", ", [](int64_t size) { return std::to_string(size); }) + ")";
}

constexpr char kWantedRows[] =
    "expected `input_ids` N×T, and optionally `attention_mask` and `labels` N×T (integers, usually int64)";

std::optional<TokenType> TypeOf(const std::string& dtype) {
  static const std::map<std::string, TokenType> types = {
      {"I64", TokenType::kInt64},  {"I32", TokenType::kInt32},  {"I16", TokenType::kInt16},
      {"I8", TokenType::kInt8},    {"U64", TokenType::kUInt64}, {"U32", TokenType::kUInt32},
      {"U16", TokenType::kUInt16}, {"U8", TokenType::kUInt8},   {"BOOL", TokenType::kUInt8}};
  const auto found = types.find(dtype);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<std::string> FindTensorFile(const std::string& data_dir, const std::string& split) {
  if (IsFile(data_dir)) return IsValidationName(split) ? std::nullopt : std::optional(data_dir);
  for (const std::string& name : SplitNames(split)) {
    const std::string path = data_dir + "/" + name + ".safetensors";
    if (IsFile(path)) return path;
  }
  return std::nullopt;
}

std::string RequireTensorFile(const std::string& data_dir, const std::string& split) {
  if (auto found = FindTensorFile(data_dir, split)) return *found;
  if (IsFile(data_dir)) {
    throw DataError(data_dir + " is one file and has no '" + split + "' split",
                    "put train.safetensors and val.safetensors into a folder and name that with --data_dir");
  }
  if (!IsFolder(data_dir)) throw DataError("there is no file or folder " + data_dir);
  const auto file = [&](const std::string& name) { return data_dir + "/" + name + ".safetensors"; };
  const std::string tried = Joined(SplitNames(split), ", ", file);
  throw DataError("there is no '" + split + "' split: looked for " + tried,
                  "--data_dir names a safetensors file, or a folder with train.safetensors and val.safetensors");
}

TensorFile::TensorFile(const std::string& path, std::optional<int64_t> user_offset, Classes classes)
    : file_(path), classes_(std::move(classes)) {
  CheckImages();
  ReadLabels();
  fingerprint_ = Sha256()
                     .UpdateInteger(static_cast<int64_t>(file_.data_bytes()))
                     .UpdateText(Describe(Entry(file_, "images")))
                     .Update(labels_.data(), labels_.size() * sizeof(int64_t))
                     .Hex();
  ShiftLabels(user_offset);
}

void TensorFile::CheckImages() {
  const SafetensorsEntry& images = Entry(file_, "images");
  const std::vector<int64_t>& shape = images.shape;
  const bool is_float = images.dtype == "F32";
  const bool known_type = is_float || images.dtype == "U8";
  const bool planar = shape.size() == 4 && shape[1] == 3;
  const bool interleaved = shape.size() == 4 && shape[3] == 3 && !is_float;
  if (!known_type || !(planar || interleaved) || images.bytes() == 0) {
    throw DataError(file_.path() + ": `images` is " + Describe(images), kWantedImages);
  }
  // A uint8 tensor N×3×W×3 is taken for N×3×H×W: no image is three rows high.
  rows_ = {.type = is_float ? ElementType::kFloat32 : ElementType::kUInt8,
           .height = planar ? shape[2] : shape[1],
           .width = planar ? shape[3] : shape[2],
           .planar = planar};
  if (rows_.bytes() > kMostRowBytes) {
    throw DataError(file_.path() + ": `images` is " + Describe(images) + ", a gigabyte or more for each",
                    kWantedImages);
  }
  images_begin_ = images.begin;
}

void TensorFile::ReadLabels() {
  const SafetensorsEntry& labels = Entry(file_, "labels");
  const int64_t count = Entry(file_, "images").shape[0];
  if ((labels.dtype != "I64" && labels.dtype != "I32") || labels.shape != std::vector<int64_t>{count}) {
    throw DataError(file_.path() + ": `labels` is " + Describe(labels) + " beside " + std::to_string(count) + " images",
                    kWantedImages);
  }
  std::vector<uint8_t> bytes(labels.bytes());
  file_.Read(labels.begin, bytes.size(), bytes.data());
  labels_ = WideTokens(*TypeOf(labels.dtype), bytes);
}

void TensorFile::ShiftLabels(std::optional<int64_t> user_offset) {
  const auto [lowest, highest] = std::minmax_element(labels_.begin(), labels_.end());
  const auto row_of = [this](auto label) { return file_.path() + " row " + std::to_string(label - labels_.begin()); };
  constexpr int64_t kMostClasses = int64_t{1} << 31;
  if (*lowest < 0 || *highest >= kMostClasses) {
    const auto& label = *lowest < 0 ? lowest : highest;
    throw DataError(row_of(label) + ": label " + std::to_string(*label) + " is not a class",
                    "labels count from 0 (or from 1 without gaps)");
  }
  // A tensor file may hold a few samples of a larger set, so missing classes are not a mistake.
  const bool known = user_offset || classes_.label_offset || classes_.count > 0;
  if (!known) user_offset = LabelOffsetOf(labels_).value_or(0);
  classes_ = ResolveLabels(labels_, user_offset, std::move(classes_),
                           [&](int64_t label) { return row_of(std::find(labels_.begin(), labels_.end(), label)); });
  for (int64_t& label : labels_) label -= *classes_.label_offset;
}

std::vector<uint8_t> TensorFile::Read(int64_t index) const {
  const auto row_bytes = static_cast<uint64_t>(rows_.bytes());
  std::vector<uint8_t> bytes(row_bytes);
  file_.Read(images_begin_ + static_cast<uint64_t>(index) * row_bytes, row_bytes, bytes.data());
  return bytes;
}

RecordPlace TensorFile::Place(int64_t index) const {
  return {file_.path(), static_cast<int64_t>(file_.data_offset() + images_begin_) + index * rows_.bytes()};
}

bool HoldsTokenRows(const std::string& path) { return SafetensorsFile(path).tensors().contains("input_ids"); }

TokenTensorFile::TokenTensorFile(const std::string& path) : file_(path) {
  const auto ids = file_.tensors().find("input_ids");
  if (ids == file_.tensors().end()) throw DataError(path + " has no tensor `input_ids`", kWantedRows);
  if (ids->second.shape.size() != 2 || ids->second.bytes() == 0) {
    throw DataError(path + ": `input_ids` is not a table of rows and tokens", kWantedRows);
  }
  rows_ = ids->second.shape[0];
  layout_ = {.tokens = ids->second.shape[1],
             .has_labels = file_.tensors().contains("labels"),
             .has_mask = file_.tensors().contains("attention_mask")};
  std::string description = std::to_string(rows_) + "x" + std::to_string(layout_.tokens);
  Add("input_ids", description);
  if (layout_.has_labels) Add("labels", description);
  if (layout_.has_mask) Add("attention_mask", description);
  fingerprint_ = Sha256().UpdateInteger(static_cast<int64_t>(file_.data_bytes())).UpdateText(description).Hex();
}

void TokenTensorFile::Add(const std::string& name, std::string& description) {
  const SafetensorsEntry& entry = file_.tensors().at(name);
  const auto type = TypeOf(entry.dtype);
  if (!type || entry.shape != std::vector<int64_t>{rows_, layout_.tokens}) {
    throw DataError(
        file_.path() + ": `" + name + "` has the dtype " + entry.dtype + ", or another shape than `input_ids`",
        kWantedRows);
  }
  tensors_.push_back({*type, entry.begin});
  description += " " + name + " " + entry.dtype;
}

void TokenTensorFile::ReadRow(const Tensor& tensor, int64_t row, int64_t* values) const {
  const auto row_bytes = static_cast<uint64_t>(layout_.tokens * TokenBytes(tensor.type));
  std::vector<uint8_t> bytes(row_bytes);
  file_.Read(tensor.begin + static_cast<uint64_t>(row) * row_bytes, row_bytes, bytes.data());
  WidenTokens(tensor.type, bytes, values);
}

std::vector<uint8_t> TokenTensorFile::Read(int64_t index) const {
  const auto tokens = static_cast<size_t>(layout_.tokens);
  std::vector<uint8_t> record(tensors_.size() * tokens * sizeof(int64_t));
  auto* values = reinterpret_cast<int64_t*>(record.data());
  for (const Tensor& tensor : tensors_) {
    ReadRow(tensor, index, values);
    values += tokens;
  }
  return record;
}

RecordPlace TokenTensorFile::Place(int64_t index) const {
  const Tensor& ids = tensors_.front();
  return {file_.path(),
          static_cast<int64_t>(file_.data_offset() + ids.begin) + index * layout_.tokens * TokenBytes(ids.type)};
}

}  // namespace dtrain::data
