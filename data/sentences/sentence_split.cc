#include "data/sentences/sentence_split.h"

#include <utility>

#include "data/formats/sentence_files.h"
#include "data/sentences/labels.h"
#include "data/sentences/read_sentences.h"
#include "data/sentences/sentence_source.h"
#include "data/sentences/sentence_tokenizer.h"

namespace dtrain::data {
namespace {

// What the rows of a split are, and what their tokens mean.
struct Rows {
  SentenceSet set;
  int64_t vocabulary = 0;
  std::string tokenizer;  // folder; empty for binarised data
  std::string meaning;    // a fingerprint
};

Rows TokenizedRows(const SentenceFiles& files, const SentenceOptions& options) {
  const auto tokenizer = FindSentenceTokenizer(options.tokenizer_paths);
  return {.set = files.layout == SentenceLayout::kTable ? ReadTable(files.path, options, *tokenizer)
                                                        : ReadClassFolders(files.path, options, *tokenizer),
          .vocabulary = tokenizer->vocabulary(),
          .tokenizer = tokenizer->folder(),
          .meaning = tokenizer->fingerprint()};
}

Rows RowsOfFolders(const SentenceFiles& files, const SentenceOptions& options) {
  BinarisedRows rows = ReadBinarised(files, options);
  return {.set = std::move(rows.set), .vocabulary = rows.vocabulary, .tokenizer = "", .meaning = rows.fingerprint};
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

SentenceSplit SplitOf(Rows rows, const SentenceOptions& options) {
  SentenceSplit split{.source = nullptr,
                      .decoder = DecoderOf(options),
                      .length = {},
                      .tokens_per_sample = options.tokens_per_sample,
                      .vocabulary = rows.vocabulary,
                      .is_pair = rows.set.is_pair,
                      .truncated = rows.set.truncated,
                      .left_out = rows.set.left_out,
                      .columns = rows.set.columns,
                      .tokenizer = rows.tokenizer,
                      .texts = std::exchange(rows.set.texts, {})};
  std::vector<std::string> classes = ClassesOf(rows.set, options);
  auto source = std::make_unique<SentenceSource>(std::move(rows.set), std::move(classes), rows.meaning);
  split.length = [rows_of = source.get()](int64_t index) { return rows_of->length(index); };
  split.source = std::move(source);
  return split;
}

}  // namespace

std::unique_ptr<SampleDecoder> DecoderOf(const SentenceOptions& options) {
  const bool has_targets = options.target == SentenceTarget::kNumber;
  return std::make_unique<SentenceRowDecoder>(options.tokens_per_sample, has_targets);
}

SentenceSplit OpenSentences(const SentenceOptions& options, const std::string& split) {
  const SentenceFiles files = RequireSentenceFiles(options.data_dir, split);
  const bool is_binarised = files.layout == SentenceLayout::kBinarised;
  return SplitOf(is_binarised ? RowsOfFolders(files, options) : TokenizedRows(files, options), options);
}

SentenceSplit OpenUnlabelled(const SentenceOptions& options, const std::string& file) {
  SentenceOptions unlabelled = options;
  unlabelled.target = SentenceTarget::kNone;
  unlabelled.keep_texts = true;
  return SplitOf(TokenizedRows({.layout = SentenceLayout::kTable, .split = "", .path = file}, unlabelled), unlabelled);
}

bool LooksLikeRegression(const SentenceOptions& options, const std::string& split) {
  const SentenceFiles files = RequireSentenceFiles(options.data_dir, split);
  if (files.layout == SentenceLayout::kClassFolders) return false;
  if (files.layout == SentenceLayout::kBinarised) return HasNumberLabels(files);
  return HaveFractions(LabelsOfTable(files.path, options));
}

}  // namespace dtrain::data
