#include "data/sentences/sentence_split.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/class_name.h"
#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/formats/sentence_files.h"
#include "data/record_source.h"
#include "data/sample_decoder.h"
#include "data/sentences/labels.h"
#include "data/sentences/read_sentences.h"
#include "data/sentences/sentence_rows.h"
#include "data/sentences/sentence_set.h"
#include "data/sentences/sentence_tokenizer.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

// Rows of sentences as records. A record is the number to predict (float32, 0 without one), followed by the tokens of
// the row (uint32 each), special ones included.
class SentenceSource : public RecordSource {
 public:
  // `classes` are the names in label order, and have every label of the set; empty without classes. `meaning` is the
  // fingerprint of what the tokens mean, and part of that of the source.
  SentenceSource(SentenceSet set, std::vector<std::string> classes, const std::string& meaning)
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

  int64_t size() const override { return set_.size(); }
  RecordKind kind() const override { return RecordKind::kTokens; }
  int64_t Label(int64_t index) const override {
    if (set_.labels.empty()) return -1;
    return class_of_[static_cast<size_t>(set_.labels[static_cast<size_t>(index)])];
  }
  std::vector<uint8_t> Read(int64_t index) const override {
    const float target = set_.targets.empty() ? 0 : set_.targets[static_cast<size_t>(index)];
    const auto token_bytes = static_cast<size_t>(length(index)) * sizeof(uint32_t);
    std::vector<uint8_t> bytes(sizeof target + token_bytes);
    std::memcpy(bytes.data(), &target, sizeof target);
    std::memcpy(bytes.data() + sizeof target, set_.tokens.data() + set_.begin(index), token_bytes);
    return bytes;
  }
  RecordPlace Place(int64_t index) const override {
    const SentenceSet::Place& place = set_.places[static_cast<size_t>(index)];
    const auto offset = place.offset < 0 ? std::nullopt : std::optional(place.offset);
    return {.file = set_.files[place.file].path, .offset = offset};
  }
  const std::vector<std::string>& class_names() const override { return classes_; }
  IgnoredFiles ignored() const override { return set_.ignored; }
  std::string fingerprint() const override { return fingerprint_; }

  int64_t length(int64_t index) const { return set_.length(index); }  // tokens

 private:
  const SentenceSet set_;
  const std::vector<std::string> classes_;
  std::vector<int64_t> class_of_;  // by position in set_.seen
  std::string fingerprint_;
};

// The fields are those of sentence_rows.h, except labels and index, which the loader adds. Cuts off tokens beyond the
// row, because the replacement of a bad row may be longer.
class SentenceRowDecoder : public SampleDecoder {
 public:
  explicit SentenceRowDecoder(const SentenceOptions& options)
      : tokens_per_sample_(options.tokens_per_sample),
        pad_(options.format.special.pad),
        has_targets_(options.target == SentenceTarget::kNumber),
        has_types_(options.format.has_types && options.is_pair.value_or(false)) {}

  std::vector<Field> fields(int64_t size) const override {
    const int64_t length = size > 0 ? size : tokens_per_sample_;
    std::vector<Field> fields = {{.name = kInputIds, .type = ElementType::kInt64, .row_shape = {length}},
                                 {.name = kAttentionMask, .type = ElementType::kUInt8, .row_shape = {length}}};
    if (has_targets_) fields.push_back({.name = kSentenceTargets, .type = ElementType::kFloat32, .row_shape = {}});
    if (has_types_) fields.push_back({.name = kTokenTypes, .type = ElementType::kInt64, .row_shape = {length}});
    return fields;
  }

  void Decode(std::span<const uint8_t> bytes, const SampleRef& /*sample*/,
              std::span<const std::span<std::byte>> rows) const override {
    if (bytes.size() < sizeof(float)) throw DataError("the record of a sentence is too short");
    const size_t room = rows[1].size();
    const size_t length = std::min(room, (bytes.size() - sizeof(float)) / sizeof(uint32_t));
    std::span<int64_t> ids(reinterpret_cast<int64_t*>(rows[0].data()), room);
    for (size_t i = 0; i < length; ++i) {
      ids[i] = LoadLittleEndian<uint32_t>(bytes.data() + sizeof(float) + i * sizeof(uint32_t));
    }
    if (has_types_) {
      std::span<int64_t> types(reinterpret_cast<int64_t*>(rows.back().data()), room);
      for (size_t i = 0; i < room; ++i) types[i] = i < length && (ids[i] & kOfSecondText) != 0 ? 1 : 0;
      for (int64_t& id : ids.first(length)) id &= ~int64_t{kOfSecondText};
    }
    std::ranges::fill(ids.subspan(length), pad_);
    std::memset(rows[1].data(), 1, length);
    std::memset(rows[1].data() + length, 0, room - length);
    if (has_targets_) std::memcpy(rows[2].data(), bytes.data(), sizeof(float));
  }

 private:
  const int64_t tokens_per_sample_;  // row length if SampleRef::size is 0
  const int64_t pad_;
  const bool has_targets_, has_types_;
};

// What the rows of a split are, and what their tokens mean.
struct Rows {
  SentenceSet set;
  int64_t vocabulary = 0;
  RowFormat format;
  std::string tokenizer;  // folder; empty for binarised data
  std::string meaning;    // a fingerprint
};

Rows EncodedRows(const SentenceFiles& files, const SentenceOptions& options) {
  const auto tokenizer = FindSentenceTokenizer(options.tokenizer_paths);
  return {.set = files.layout == SentenceLayout::kTable ? ReadTable(files.path, options, *tokenizer)
                                                        : ReadClassFolders(files.path, options, *tokenizer),
          .vocabulary = tokenizer->vocabulary(),
          .format = tokenizer->format(),
          .tokenizer = tokenizer->folder(),
          .meaning = tokenizer->fingerprint()};
}

Rows RowsOfFolders(const SentenceFiles& files, const SentenceOptions& options) {
  BinarisedRows rows = ReadBinarised(files, options);
  return {.set = std::move(rows.set),
          .vocabulary = rows.vocabulary,
          .format = {},
          .tokenizer = "",
          .meaning = rows.fingerprint};
}

std::vector<std::string> ClassesOf(const SentenceSet& set, const SentenceOptions& options) {
  if (options.target != SentenceTarget::kClass) return {};
  KnownClasses known{
      .names = options.classes, .listed = ListedClasses(options.data_dir), .preferred_order = options.class_order};
  if (set.names) {
    known.listed = *set.names;
    if (SortedClasses(options.class_order) == SortedClasses(*set.names)) known.listed = options.class_order;
  }
  return ClassesOf(set.seen, known);
}

std::optional<float> OnlyOne(const std::vector<float>& targets) {
  const bool is_one = std::ranges::adjacent_find(targets, std::not_equal_to<>()) == targets.end();
  return is_one && !targets.empty() ? std::optional(targets.front()) : std::nullopt;
}

SentenceSplit SplitOf(Rows rows, const SentenceOptions& options) {
  SentenceOptions known = options;
  known.is_pair = rows.set.is_pair;
  known.format = rows.format;
  SentenceSplit split{.source = nullptr,
                      .decoder = DecoderOf(known),
                      .length = {},
                      .tokens_per_sample = options.tokens_per_sample,
                      .vocabulary = rows.vocabulary,
                      .format = rows.format,
                      .is_pair = rows.set.is_pair,
                      .truncated = rows.set.truncated,
                      .only_target = OnlyOne(rows.set.targets),
                      .left_out = rows.set.left_out,
                      .columns = rows.set.columns,
                      .tokenizer = rows.tokenizer,
                      .texts = std::exchange(rows.set.texts, {}),
                      .kept_columns = std::exchange(rows.set.kept_columns, {}),
                      .groups = std::exchange(rows.set.groups, {})};
  std::vector<std::string> classes = ClassesOf(rows.set, options);
  RequireClassNames(classes, rows.set.files.front().path);
  auto source = std::make_unique<SentenceSource>(std::move(rows.set), std::move(classes), rows.meaning);
  split.length = [rows_of = source.get()](int64_t index) { return rows_of->length(index); };
  split.source = std::move(source);
  return split;
}

}  // namespace

std::unique_ptr<SampleDecoder> DecoderOf(const SentenceOptions& options) {
  return std::make_unique<SentenceRowDecoder>(options);
}

SentenceSplit OpenSentences(const SentenceOptions& options, const std::string& split) {
  const SentenceFiles files = RequireSentenceFiles(options.data_dir, split);
  const bool is_binarised = files.layout == SentenceLayout::kBinarised;
  return SplitOf(is_binarised ? RowsOfFolders(files, options) : EncodedRows(files, options), options);
}

SentenceSplit OpenUnlabelled(const SentenceOptions& options, const std::string& file) {
  SentenceOptions unlabelled = options;
  unlabelled.target = SentenceTarget::kNone;
  unlabelled.keep_texts = unlabelled.keeps_going = true;
  return SplitOf(EncodedRows({.layout = SentenceLayout::kTable, .split = "", .path = file}, unlabelled), unlabelled);
}

bool LooksLikeRegression(const SentenceOptions& options, const std::string& split) {
  const SentenceFiles files = RequireSentenceFiles(options.data_dir, split);
  if (files.layout == SentenceLayout::kClassFolders) return false;
  if (files.layout == SentenceLayout::kBinarised) return HasNumberLabels(files);
  return HaveFractions(LabelsOfTable(files.path, options));
}

}  // namespace dtrain::data
