#include "data/formats/token_tensor_file.h"

#include <map>
#include <optional>

#include "data/error.h"
#include "data/formats/token_dataset.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

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
  Sha256 hash;
  hash.UpdateInteger(static_cast<int64_t>(file_.data_bytes()));
  hash.UpdateText(description);
  fingerprint_ = hash.Hex();
}

void TokenTensorFile::Add(const std::string& name, std::string& description) {
  const SafetensorsEntry& entry = file_.tensors().at(name);
  const auto type = TypeOf(entry.dtype);
  if (!type || entry.shape != std::vector<int64_t>{rows_, layout_.tokens}) {
    throw DataError(
        file_.path() + ": `" + name + "` has the dtype " + entry.dtype + ", or another shape than `input_ids`",
        kWantedRows);
  }
  tensors_.push_back({entry.dtype, entry.begin, TokenBytes(*type)});
  description += " " + name + " " + entry.dtype;
}

void TokenTensorFile::ReadRow(const Tensor& tensor, int64_t row, int64_t* values) const {
  const auto row_bytes = static_cast<uint64_t>(layout_.tokens * tensor.element_bytes);
  std::vector<uint8_t> bytes(row_bytes);
  file_.Read(tensor.begin + static_cast<uint64_t>(row) * row_bytes, row_bytes, bytes.data());
  WidenTokens(*TypeOf(tensor.dtype), bytes, values);
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
          static_cast<int64_t>(file_.data_offset() + ids.begin) + index * layout_.tokens * ids.element_bytes};
}

}  // namespace dtrain::data
