// A split of labelled sentences or pairs of sentences, ready for the loader: read, checked and tokenized completely
// when it is opened, so that whatever is wrong with the data is said before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/record_source.h"
#include "data/text/tokenizer.h"

namespace dtrain::data {

// What labels are, by the task that learns them: a row of facts, which all readers and tasks ask.
struct SentenceTarget {
  std::optional<LabelKind> labels = {};  // of a row, or of each word; empty: there are none, or they are not read
  bool of_words = false;                 // each word has a label, its tag
  bool of_texts = false;                 // a row is several texts, each by itself, and perhaps a score of two of them

  bool has(LabelKind kind) const { return labels == kind; }
};
// Those of text_classification, text_regression, text_multilabel, token_classification and sentence_embedding, and that
// of a prediction.
inline constexpr SentenceTarget kClassTarget = {LabelKind::kClass}, kNumberTarget = {LabelKind::kNumbers},
                                kSeveralTarget = {LabelKind::kSeveral},
                                kWordTarget = {.labels = LabelKind::kClass, .of_words = true},
                                kTextsTarget = {.of_texts = true}, kNoTarget = {};

struct SentenceOptions {
  std::string data_dir;
  // Names of columns; empty: found among the names that data sets commonly use (table_columns.cc). If a text column is
  // given and no pair column, there is no pair.
  std::string text_column = {}, pair_column = {}, label_column = {};
  SentenceTarget target = kClassTarget;
  // Of several labels: what is between the labels in a cell. Empty: label_column names several columns, with commas
  // between them, each of a label that holds where the cell is 1; or the cells of JSON lines are lists of labels.
  std::string label_separator = {};
  // Of rows of texts.
  std::string negative_column = {};  // as the other names of columns; names with commas between them
  std::optional<bool> scored = {};   // whether rows have scores; empty: if there is a column of them and no negatives
  double score_scale = 0;            // scores are divided by it; 0: 5 if some are above 1, else 1
  int64_t texts_per_row = 1;         // what is known of a split for DecoderOf: the texts of a row …
  bool has_scores = false;           // … and whether it has a score

  // What is known from the training split or a checkpoint; empty for the training split itself. A label outside
  // `classes`, and a split with pairs where there should be none (or the other way round) throw DataError.
  std::vector<std::string> classes = {};
  std::optional<bool> is_pair = {};
  RowFormat format = {};
  // The names in the weights (id2label). Their order holds if they are the names of the data's classes.
  std::vector<std::string> class_order = {};

  int64_t tokens_per_sample = 512;                // longer rows are truncated
  std::vector<std::string> tokenizer_paths = {};  // where the tokenizer may lie (FindSentenceTokenizer)
  bool keep_texts = false;
  std::string group_column = {};  // empty: none
  char csv_delimiter = 0;         // 0: found in the header

  // For prediction: a row that cannot be read, or has no text, is kept with its error instead of being one.
  // `kept_columns` of a table are passed on: all, none, or names with commas between them.
  bool keeps_going = false;
  bool is_unlabelled = false;  // set by OpenUnlabelled
  std::string kept_columns = "none";
};

struct WordPlace {
  int64_t line = 0;            // in the file, from 1
  int64_t begin = 0, end = 0;  // in a line of text: characters (code points), from 0
};

// What a prediction of words cannot read: a word without a token, a line that is no UTF-8.
struct UnreadWord {
  int64_t sentence = 0;  // its number, from 0
  int64_t before = 0;    // the number of the word that follows
  int64_t line = 0;      // in the file, from 1
  std::string word = {}, error = {};
};

// The words of a split whose words have labels, numbered from 0 through all its sentences.
struct SplitWords {
  std::vector<int64_t> ends;       // by sentence: the number of the word behind its last one
  std::vector<WordPlace> places;   // by word, if texts are kept
  std::vector<std::string> texts;  // by word, likewise; none of lines of text
  std::vector<std::string> lines;  // by sentence, if it is a line of text
  std::vector<UnreadWord> unread;  // in the order of the file, if the set keeps going; they have no number
  int64_t left_out = 0;            // else: the words for which the tokenizer has no token
  int64_t words() const { return ends.empty() ? 0 : ends.back(); }
};

struct SentenceText {
  std::string text, pair;              // `pair` is empty if there is none
  std::vector<std::string> kept = {};  // the cells of SentenceSplit::kept_columns
  std::string error = {};              // why there is no text; else empty
};

// What is known of the rows of a split.
struct SentenceFacts {
  bool is_pair = false;
  int64_t truncated = 0;      // rows that were too long
  int64_t texts_per_row = 1;  // of a row, each with tokens of its own
  int64_t left_out = 0;       // rows and files without a label: `-` as gold_label, aclImdb's unsup, damaged rows of QQP
  std::string columns = {};   // what was read: "text sentence1, pair sentence2, label gold_label"
  std::vector<SentenceText> texts = {};        // by index; only with keep_texts, never for binarised data
  std::vector<std::string> kept_columns = {};  // names of SentenceText::kept; only for prediction
  // By index: the cells of group_column, or the numbers of sentences if some are several rows.
  std::vector<std::string> groups = {};
  std::shared_ptr<const SplitWords> words = nullptr;  // only if words have labels
  int64_t cut_sentences = 0;                          // likewise: sentences of several rows
};

struct SentenceSplit : SentenceFacts {
  std::unique_ptr<RecordSource> source;    // class_names() are the classes in label order; empty of numbers
  std::unique_ptr<SampleDecoder> decoder;  // fills the fields of data/text/token_rows.h
  // Tokens of a row, special ones included, or of the longest of its texts; valid as long as `source`.
  std::function<int64_t(int64_t index)> length;
  int64_t tokens_per_sample = 0;           // longest row that is possible
  int64_t vocabulary = 0;                  // every token is below it
  RowFormat format = {};                   // of the rows, which <pad> fills up
  std::optional<float> only_target;        // the target of all rows, if it is the same
  std::optional<double> score_scale = {};  // what scores were divided by; empty: there are none
  std::string tokenizer;                   // the tokenizer's folder; empty for fairseq's binarised data
};

// Returns a decoder as that of the split.
std::unique_ptr<SampleDecoder> DecoderOf(const SentenceOptions& options);

// Opens a split of DIR/train.tsv|csv|jsonl, DIR/train/CLASS/*.txt or fairseq's DIR/input0 (sentence_files.h). Classes
// are those of options.classes, else of classes.txt in data_dir (one per line), else those of the split: for binarised
// data in the order of label/dict.txt, otherwise in that of class_order if it has the same names, else sorted, whole
// numbers by value. Throws DataError, which names file and line, and Error (exit code 2) if tokens_per_sample has no
// room for the special tokens.
SentenceSplit OpenSentences(const SentenceOptions& options, const std::string& split);

// Opens one file without labels: a table, or FILE.txt with a text in each line. Keeps the texts, and the rows that have
// none, with their errors. With kWordTarget the file has words, whose labels are then 0; the tokens of lines of text
// count as words. data_dir and other targets are ignored.
SentenceSplit OpenUnlabelled(const SentenceOptions& options, const std::string& file);

// Whether words have the labels of a split: its files are columns of words, or JSON lines with lists of words.
bool LooksLikeWords(const SentenceOptions& options, const std::string& split);

// Whether all labels of a split are decimal numbers of which some are not whole. Reads the labels only. Throws
// DataError as OpenSentences does.
bool LooksLikeRegression(const SentenceOptions& options, const std::string& split);

}  // namespace dtrain::data
