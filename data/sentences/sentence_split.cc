#include "data/sentences/sentence_split.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "data/error.h"
#include "data/formats/labels.h"
#include "data/formats/little_endian.h"
#include "data/formats/sentence_files.h"
#include "data/sentences/sentence_set.h"
#include "data/sentences/sentence_tokenizer.h"
#include "data/sha256.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"

namespace dtrain::data {
namespace {

constexpr size_t kValueBytes = sizeof(uint32_t);

// Rows of sentences as records: the number of tokens, the tokens (special ones included), and what is learned of them
// besides the label that RecordSource has. All are of four bytes.
class SentenceSource : public RecordSource {
 public:
  // `classes` are the names in label order, and have every label of the set; empty without classes. `meaning` is the
  // fingerprint of what the tokens mean, and part of that of the source.
  SentenceSource(SentenceSet set, std::vector<std::string> classes, SentenceTarget target, const std::string& meaning)
      : set_(std::move(set)), classes_(std::move(classes)), target_(target) {
    std::map<std::string, int32_t> positions;
    for (const std::string& name : classes_) positions.emplace(name, static_cast<int32_t>(positions.size()));
    for (const SeenLabel& label : set_.targets.seen) class_of_.push_back(positions.at(label.name));
    Sha256 hash;
    for (const SentenceSet::File& file : set_.files) hash.UpdateFile(file.path, file.bytes);
    for (const SeenLabel& label : set_.targets.seen) hash.UpdateText(label.name);
    fingerprint_ = hash.UpdateText(set_.columns).UpdateText(meaning).Hex();
  }

  int64_t size() const override { return set_.size(); }
  RecordKind kind() const override { return RecordKind::kTokens; }
  int64_t Label(int64_t index) const override {
    return target_.has(LabelKind::kClass) && !target_.of_words ? ClassAt(static_cast<uint64_t>(index)) : -1;
  }
  std::vector<uint8_t> Read(int64_t index) const override {
    const auto row = static_cast<size_t>(index);
    const uint64_t begin = set_.begin(index), end = set_.ends[row];
    std::vector<uint8_t> bytes;
    const auto append = [&bytes](auto value) {
      static_assert(sizeof value == kValueBytes);
      const auto* first = reinterpret_cast<const uint8_t*>(&value);
      bytes.insert(bytes.end(), first, first + sizeof value);
    };
    append(static_cast<uint32_t>(end - begin));
    for (uint64_t i = begin; i < end; ++i) append(set_.tokens[i]);
    if (!set_.targets.numbers.empty()) append(set_.targets.numbers[row]);
    if (target_.has(LabelKind::kSeveral)) {
      const std::vector<uint64_t>& ends = set_.targets.ends;
      for (uint64_t i = row == 0 ? 0 : ends[row - 1]; i < ends[row]; ++i) append(ClassAt(i));
    }
    if (target_.of_words) {
      append(static_cast<int32_t>(set_.targets.first_words[row]));
      for (uint64_t i = begin; i < end; ++i) append(ClassAt(i));
    }
    return bytes;
  }
  bool is_in_memory() const override { return true; }
  RecordPlace Place(int64_t index) const override {
    const SentenceSet::Place& place = set_.places[static_cast<size_t>(index)];
    const auto offset = place.offset < 0 ? std::nullopt : std::optional(place.offset);
    return {.file = set_.files[place.file].path, .offset = offset};
  }
  const std::vector<std::string>& class_names() const override { return classes_; }
  IgnoredFiles ignored() const override { return set_.ignored; }
  std::string fingerprint() const override { return fingerprint_; }

  int64_t length(int64_t index) const {  // tokens
    if (!target_.of_texts) return set_.length(index);
    uint64_t longest = 0, first = set_.begin(index);
    const uint64_t end = set_.ends[static_cast<size_t>(index)];
    for (uint64_t i = first + 1; i <= end; ++i) {
      if (i < end && set_.tokens[i] < kOfSecondText) continue;
      longest = std::max(longest, i - first);
      first = i;
    }
    return static_cast<int64_t>(longest);
  }

 private:
  // Returns the class of a label of the set; kNoLoss if there is none.
  int32_t ClassAt(uint64_t place) const {
    const int32_t label = set_.targets.labels[place];
    return label < 0 ? int32_t{kNoLoss} : class_of_[static_cast<size_t>(label)];
  }

  const SentenceSet set_;
  const std::vector<std::string> classes_;
  const SentenceTarget target_;
  std::vector<int32_t> class_of_;  // by position in WrittenLabels::seen
  std::string fingerprint_;
};

// The fields are those of token_rows.h, except index, and labels of whole rows, which the loader adds. Cuts off
// tokens beyond the row, because the replacement of a bad row may be longer.
class SentenceRowDecoder : public SampleDecoder {
 public:
  explicit SentenceRowDecoder(const SentenceOptions& options)
      : tokens_per_sample_(options.tokens_per_sample),
        pad_(options.format.special.pad),
        target_(options.target),
        texts_(options.texts_per_row),
        has_number_(options.target.has(LabelKind::kNumbers) || options.has_scores),
        has_types_(options.format.has_types && options.is_pair.value_or(false)),
        classes_(static_cast<int64_t>(options.classes.size())) {}

  std::vector<Field> fields(int64_t size) const override {
    const int64_t length = size > 0 ? size : tokens_per_sample_;
    std::vector<int64_t> tokens = {length};
    if (target_.of_texts) tokens.insert(tokens.begin(), texts_);
    std::vector<Field> fields = {{.name = kInputIds, .type = ElementType::kInt64, .row_shape = tokens},
                                 {.name = kAttentionMask, .type = ElementType::kUInt8, .row_shape = tokens}};
    if (has_number_) fields.push_back({.name = kSentenceTargets, .type = ElementType::kFloat32, .row_shape = {}});
    if (target_.has(LabelKind::kSeveral))
      fields.push_back({.name = kSentenceTargets, .type = ElementType::kFloat32, .row_shape = {classes_}});
    if (target_.of_words) {
      fields.push_back({.name = kSentenceLabels, .type = ElementType::kInt64, .row_shape = {length}});
      fields.push_back({.name = kFirstWords, .type = ElementType::kInt64, .row_shape = {}});
    }
    if (has_types_) fields.push_back({.name = kTokenTypes, .type = ElementType::kInt64, .row_shape = {length}});
    return fields;
  }

  void Decode(std::span<const uint8_t> bytes, const SampleRef& /*sample*/,
              std::span<const std::span<std::byte>> rows) const override {
    const size_t values = bytes.size() / kValueBytes;
    const auto value = [bytes]<typename T>(size_t place, T) {
      return std::bit_cast<T>(LoadLittleEndian<uint32_t>(bytes.data() + place * kValueBytes));
    };
    const size_t tokens = values == 0 ? 0 : value(0, uint32_t{}), behind = 1 + tokens;
    const size_t others = has_number_ ? 1 : target_.of_words ? 1 + tokens : 0;
    if (values == 0 || values < behind + others) throw DataError("the record of a sentence is too short");
    const auto numbers = [&rows](size_t field) {
      return std::span(reinterpret_cast<int64_t*>(rows[field].data()), rows[field].size() / sizeof(int64_t));
    };
    const size_t room = rows[1].size(), texts = static_cast<size_t>(texts_), places = room / texts;
    const std::span<int64_t> types = has_types_ ? numbers(rows.size() - 1) : std::span<int64_t>();
    std::ranges::fill(numbers(0), pad_);
    std::memset(rows[1].data(), 0, room);
    std::ranges::fill(types, 0);
    size_t text = 0, place = 0;
    for (size_t i = 0; i < tokens; ++i, ++place) {
      const uint32_t token = value(1 + i, uint32_t{});
      const bool has_mark = token >= kOfSecondText;
      if (has_mark && target_.of_texts) {
        ++text;
        place = 0;
      }
      if (text >= texts || place >= places) continue;
      numbers(0)[text * places + place] = token & ~kOfSecondText;
      rows[1][text * places + place] = std::byte{1};
      if (has_types_) types[place] = has_mark ? 1 : 0;
    }
    if (has_number_) std::memcpy(rows[2].data(), bytes.data() + behind * kValueBytes, kValueBytes);
    if (target_.has(LabelKind::kSeveral)) {
      const std::span held(reinterpret_cast<float*>(rows[2].data()), static_cast<size_t>(classes_));
      std::ranges::fill(held, 0.0F);
      for (size_t i = behind; i < values; ++i) held[value(i, uint32_t{}) % held.size()] = 1;
    }
    if (target_.of_words) {
      for (size_t i = 0; i < room; ++i) numbers(2)[i] = i < tokens ? value(behind + 1 + i, int32_t{}) : kNoLoss;
      numbers(3)[0] = value(behind, int32_t{});
    }
  }

 private:
  const int64_t tokens_per_sample_;  // row length if SampleRef::size is 0
  const int64_t pad_;
  const SentenceTarget target_;
  const int64_t texts_;
  const bool has_number_, has_types_;
  const int64_t classes_;
};

SentenceRows EncodedRows(const SentenceFiles& files, const SentenceOptions& options) {
  const bool has_columns = files.layout == SentenceLayout::kTable && !options.target.of_words;
  if (!options.group_column.empty() && !has_columns) {
    throw DataError("--group_column=" + options.group_column + ": " + files.path + " has no columns of groups",
                    "a table of texts (.tsv, .csv, .jsonl) has; or make the validation split by hand");
  }
  const auto tokenizer = FindSentenceTokenizer(options.tokenizer_paths);
  const auto read = options.target.of_words                  ? &ReadWords
                    : files.layout == SentenceLayout::kTable ? &ReadTable
                                                             : &ReadClassFolders;
  return {.set = read(files.path, options, *tokenizer),
          .vocabulary = tokenizer->vocabulary(),
          .format = tokenizer->format(),
          .tokenizer = tokenizer->folder(),
          .meaning = tokenizer->fingerprint()};
}

std::vector<std::string> ClassesOf(const SentenceSet& set, const SentenceOptions& options) {
  // Of a set in which no row has a label, the labels are those of the training data.
  if (set.targets.seen.empty() && !options.target.has(LabelKind::kSeveral)) return {};
  KnownClasses known{
      .names = options.classes, .listed = ListedClasses(options.data_dir), .preferred_order = options.class_order};
  if (set.names) {
    known.listed = *set.names;
    if (SortedClasses(options.class_order) == SortedClasses(*set.names)) known.listed = options.class_order;
  }
  return ClassesOf(set.targets.seen, known);
}

std::optional<float> OnlyOne(const std::vector<float>& targets) {
  const bool is_one = std::ranges::adjacent_find(targets, std::not_equal_to<>()) == targets.end();
  return is_one && !targets.empty() ? std::optional(targets.front()) : std::nullopt;
}

SentenceSplit SplitOf(SentenceRows rows, const SentenceOptions& options) {
  SentenceOptions known = options;
  known.is_pair = rows.set.is_pair;
  known.format = rows.format;
  known.texts_per_row = rows.set.texts_per_row;
  known.has_scores = options.target.of_texts && !rows.set.targets.numbers.empty();
  known.classes = ClassesOf(rows.set, options);
  RequireClassNames(known.classes, rows.set.files.front().path);
  SentenceSplit split;
  static_cast<SentenceFacts&>(split) =
      std::exchange(static_cast<SentenceFacts&>(rows.set), {.columns = rows.set.columns});
  split.decoder = DecoderOf(known);
  split.tokens_per_sample = options.tokens_per_sample;
  split.vocabulary = rows.vocabulary;
  split.format = rows.format;
  split.only_target = OnlyOne(rows.set.targets.numbers);
  if (known.has_scores) split.score_scale = rows.set.score_scale;
  split.tokenizer = rows.tokenizer;
  auto source = std::make_unique<SentenceSource>(std::move(rows.set), known.classes, options.target, rows.meaning);
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
  const bool is_binarised = files.layout == SentenceLayout::kBinarised, wants_words = options.target.of_words;
  const bool may_have_words = files.layout == SentenceLayout::kTable || files.layout == SentenceLayout::kWords;
  if (options.target.of_texts && files.layout != SentenceLayout::kTable) {
    throw DataError(files.path + " has no rows of several texts",
                    "give a table (.tsv, .csv or .jsonl) with a column for each text");
  }
  if (wants_words ? !may_have_words : files.layout == SentenceLayout::kWords) {
    throw DataError(files.path + (wants_words ? " has no labels of words" : " has labels of words"),
                    wants_words ? "give columns of words (NAME.conll) or JSON lines with tokens and tags"
                                : "use --task=token_classification");
  }
  return SplitOf(is_binarised ? ReadBinarised(files, options) : EncodedRows(files, options), options);
}

SentenceSplit OpenUnlabelled(const SentenceOptions& options, const std::string& file) {
  SentenceOptions unlabelled = options;
  unlabelled.is_unlabelled = unlabelled.keep_texts = unlabelled.keeps_going = true;
  if (!options.target.of_words && !options.target.of_texts) unlabelled.target = kNoTarget;
  return SplitOf(EncodedRows({.layout = SentenceLayout::kTable, .split = "", .path = file}, unlabelled), unlabelled);
}

bool LooksLikeWords(const SentenceOptions& options, const std::string& split) {
  const SentenceFiles files = RequireSentenceFiles(options.data_dir, split);
  return files.layout == SentenceLayout::kWords ||
         (files.layout == SentenceLayout::kTable && HasLists(files.path, options));
}

bool LooksLikeRegression(const SentenceOptions& options, const std::string& split) {
  const SentenceFiles files = RequireSentenceFiles(options.data_dir, split);
  if (files.layout == SentenceLayout::kClassFolders) return false;
  if (files.layout == SentenceLayout::kBinarised) return HasNumberLabels(files);
  return HaveFractions(LabelsOfTable(files.path, options));
}

}  // namespace dtrain::data
