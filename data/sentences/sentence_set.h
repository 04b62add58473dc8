// All rows of a split in memory: their tokens one after another, their labels, and where they come from; and what reads
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/labels.h"
#include "data/formats/sentence_files.h"
#include "data/formats/table_reader.h"
#include "data/sentences/sentence_split.h"
#include "data/sentences/sentence_tokenizer.h"

namespace dtrain::data {

struct SentenceSet : SentenceFacts {
  struct File {
    std::string path;
    uint64_t bytes = 0;
  };
  struct Place {
    uint32_t file = 0;    // number of the file
    int64_t offset = -1;  // bytes; -1: the row is the whole file
  };

  std::vector<File> files;
  std::vector<Place> places;  // by row
  // Of all rows, with special tokens and the marks of kOfSecondText. Of rows of texts, the first token of each text of
  // a row but the first one has the mark.
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> ends;  // by row: where its tokens end
  WrittenLabels targets;

  double score_scale = 1;                         // what scores were divided by
  IgnoredFiles ignored;                           // other files in class folders
  std::optional<std::vector<std::string>> names;  // the classes in label order, if the files say them

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
  uint64_t begin(int64_t row) const { return row == 0 ? 0 : ends[static_cast<size_t>(row) - 1]; }
  int64_t length(int64_t row) const { return static_cast<int64_t>(ends[static_cast<size_t>(row)] - begin(row)); }
};

// A row as it is read.
struct RawSentence {
  SentenceText text;
  std::vector<std::string> negatives = {};
  std::string label;  // or labels with separators
  SentenceSet::Place place;
  int64_t line = 0;  // 0: the whole file
};

// Fills a SentenceSet.
class SentenceCollector {
 public:
  // `tokenizer` is null for rows that are tokens already; otherwise it must outlive the collector.
  SentenceCollector(const SentenceOptions& options, const SentenceTokenizer* tokenizer, bool is_pair);

  uint32_t AddFile(const std::string& path, uint64_t bytes);
  // Tokenizes rows with all cores and appends them. Throws DataError for a label that is missing or not a number.
  void Add(std::vector<RawSentence> rows);
  // Appends a row of fairseq's tokens; `b` is ignored unless there are pairs. `label` as in RawSentence.
  void AddTokens(std::span<const uint32_t> a, std::span<const uint32_t> b, const std::string& label,
                 SentenceSet::Place place, const std::string& where);
  void LeaveOut(int64_t rows) { set_.left_out += rows; }

  // Returns the rows. Throws DataError if there are none, or if some have no text and the set does not keep going.
  SentenceSet Take();

 private:
  void AddLabel(const std::string& label, const std::string& where);
  void RequireScore(double score, const std::string& where) const;
  void NoteEmpty(RawSentence& row);
  std::string WhereIs(const RawSentence& row) const;

  const SentenceTarget target_;
  const bool has_scores_;
  const double score_scale_;
  const std::string label_separator_;
  const int64_t most_tokens_;
  const bool keeps_texts_, keeps_going_;
  const SentenceTokenizer* const tokenizer_;
  std::vector<std::unique_ptr<TextEncoder>> encoders_;  // one per thread
  int64_t empty_ = 0;
  std::string first_empty_;
  SentenceSet set_;
};

// ---- The columns of a table: by the names given, or by those that data sets commonly use (table_columns.cc) ----

// Names given by the user; empty if not given.
struct ColumnNames {
  std::string text = {}, pair = {}, label = {}, negatives = {};
  bool several_labels = false;  // `label` names several columns, with commas between them
};

struct TableColumns {
  size_t text = 0;  // positions in the header
  std::optional<size_t> pair = {};
  std::vector<size_t> labels = {};     // of labels or scores; none, one, or …
  bool several_labels = false;         // … each of them is of one label
  std::vector<size_t> negatives = {};  // of texts that stand beside the pair
  bool dash_is_no_label = false;       // gold_label is `-` where annotators did not agree
};

// Chooses the columns of a table and tells the reader what is peculiar to GLUE's own files: those of CoLA have no
// header, some rows of QQP are damaged. The label column is looked for only if `wants_label`. Throws DataError if a
// column is missing, or if several could be meant.
TableColumns ChooseColumns(TableReader& table, const ColumnNames& names, bool wants_label);

// Chooses the columns of a table whose rows are several texts, each by itself: two that are alike, as `text` and
// `pair`, and any number of negatives. `labels` is a score of how alike the two are. `scored`: whether there must be
// one; empty: if there is such a column, and no negatives. Throws as ChooseColumns does.
TableColumns ChooseTextColumns(const TableReader& table, const ColumnNames& names, std::optional<bool> scored);

// Returns the positions of the columns that `which` names (all, none, or names with commas between them), but not those
// in `read`. Throws DataError for a name that the table does not have.
std::vector<size_t> ColumnsToKeep(const TableReader& table, const std::string& which, const std::vector<size_t>& read);

// "text sentence1, pair sentence2, label gold_label"
std::string ToText(const TableColumns& columns, const TableReader& table);

// ---- Readers of each of the layouts of sentence_files.h ----

// Reads a table. Throws DataError, which names file and line; also if options.is_pair says other than the columns.
SentenceSet ReadTable(const std::string& path, const SentenceOptions& options, const SentenceTokenizer& tokenizer);

// Reads sentences whose words have labels:
//   columns  a word in each line, its columns between tabs or spaces: the word is the first one, the label the last one
//            unless label_column says otherwise; a blank line, or one that begins with -DOCSTART-, ends a sentence
//   .jsonl   an object for each sentence, with the lists `tokens` and `tags` (or `ner_tags`)
//   .txt     without labels: a text in each line, whose tokens count as words
// A word's label is that of its first token. Sentences that are too long become several rows, which overlap; each word
// has its label in the row that has most of the text around it. Words without a token are left out; what an unlabelled
// set that keeps going cannot read is in SplitWords::unread. Throws DataError, which names file and line.
SentenceSet ReadWords(const std::string& path, const SentenceOptions& options, const SentenceTokenizer& tokenizer);

// Whether the first object of a .jsonl has such lists. False for other files.
bool HasLists(const std::string& path, const SentenceOptions& options);

// Reads the texts of SPLIT/CLASS/*.txt, sorted by class and name, without a line end at their end. A class folder named
// unsup is left out, as in aclImdb, whose texts in it have no label.
SentenceSet ReadClassFolders(const std::string& split_dir, const SentenceOptions& options,
                             const SentenceTokenizer& tokenizer);

// The rows of a split, and what their tokens mean.
struct SentenceRows {
  SentenceSet set;
  int64_t vocabulary = 0;
  RowFormat format = {};
  std::string tokenizer = {};  // folder; empty for binarised data
  std::string meaning = {};    // a fingerprint, of the tokenizer or of input0/dict.txt
};

// Reads fairseq's binarised folders. The special tokens are those of its recipes (--init-token 0 --separator-token 2),
// and the vocabulary is that of input0/dict.txt, with <mask>.
SentenceRows ReadBinarised(const SentenceFiles& files, const SentenceOptions& options);

// The distinct labels of a table, as they are written.
std::vector<std::string> LabelsOfTable(const std::string& path, const SentenceOptions& options);

// Whether the labels of binarised folders are numbers to predict: label/SPLIT.label and no label/SPLIT.bin.
bool HasNumberLabels(const SentenceFiles& files);

}  // namespace dtrain::data
