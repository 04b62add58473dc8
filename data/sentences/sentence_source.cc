#include "data/sentences/sentence_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/sentences/sentence_rows.h"
#include "data/sha256.h"
#include "data/text/dictionary.h"

namespace dtrain::data {

SentenceSource::SentenceSource(SentenceSet set, std::vector<std::string> classes, const std::string& meaning)
    : set_(std::move(set)), classes_(std::move(classes)) {
  std::map<std::string, int64_t> positions;
  for (const std::string& name : classes_) positions.emplace(name, static_cast<int64_t>(positions.size()));
  for (const SeenLabel& label : set_.seen) class_of_.push_back(positions.at(label.name));
  Sha256 hash;
  for (const SentenceSet::File& file : set_.files) {
    hash.UpdateText(std::filesystem::path(file.path).filename().string());
    hash.UpdateInteger(static_cast<int64_t>(file.bytes));
  }
  for (const SeenLabel& label : set_.seen) hash.UpdateText(label.name);
  hash.UpdateText(set_.columns);
  hash.UpdateText(meaning);
  fingerprint_ = hash.Hex();
}

int64_t SentenceSource::Label(int64_t index) const {
  if (set_.labels.empty()) return -1;
  return class_of_[static_cast<size_t>(set_.labels[static_cast<size_t>(index)])];
}

std::vector<uint8_t> SentenceSource::Read(int64_t index) const {
  const float target = set_.targets.empty() ? 0 : set_.targets[static_cast<size_t>(index)];
  const auto token_bytes = static_cast<size_t>(length(index)) * sizeof(uint32_t);
  std::vector<uint8_t> bytes(sizeof target + token_bytes);
  std::memcpy(bytes.data(), &target, sizeof target);
  std::memcpy(bytes.data() + sizeof target, set_.tokens.data() + set_.begin(index), token_bytes);
  return bytes;
}

RecordPlace SentenceSource::Place(int64_t index) const {
  const SentenceSet::Place& place = set_.places[static_cast<size_t>(index)];
  return {.file = set_.files[place.file].path, .offset = place.offset < 0 ? std::nullopt : std::optional(place.offset)};
}

std::vector<Field> SentenceRowDecoder::fields(int64_t size) const {
  const int64_t length = size > 0 ? size : tokens_per_sample_;
  std::vector<Field> fields = {{.name = kInputIds, .type = ElementType::kInt64, .row_shape = {length}},
                               {.name = kAttentionMask, .type = ElementType::kUInt8, .row_shape = {length}}};
  if (has_targets_) fields.push_back({.name = kSentenceTargets, .type = ElementType::kFloat32, .row_shape = {}});
  return fields;
}

void SentenceRowDecoder::Decode(std::span<const uint8_t> bytes, const SampleRef& /*sample*/,
                                std::span<const std::span<std::byte>> rows) const {
  if (bytes.size() < sizeof(float)) throw DataError("the record of a sentence is too short");
  const size_t room = rows[1].size();
  const size_t length = std::min(room, (bytes.size() - sizeof(float)) / sizeof(uint32_t));
  std::span<int64_t> ids(reinterpret_cast<int64_t*>(rows[0].data()), room);
  for (size_t i = 0; i < length; ++i) {
    ids[i] = LoadLittleEndian<uint32_t>(bytes.data() + sizeof(float) + i * sizeof(uint32_t));
  }
  std::ranges::fill(ids.subspan(length), int64_t{kPadToken});
  std::memset(rows[1].data(), 1, length);
  std::memset(rows[1].data() + length, 0, room - length);
  if (has_targets_) std::memcpy(rows[2].data(), bytes.data(), sizeof(float));
}

}  // namespace dtrain::data
