// All rows of a split in memory: their tokens one after another, their labels, and where they come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/labels.h"
#include "data/record_source.h"
#include "data/sentences/sentence_split.h"
#include "data/sentences/sentence_tokenizer.h"

namespace dtrain::data {

struct SentenceSet {
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
  // Of all rows, with special tokens and the marks of kOfSecondText. Of kTexts, the first token of each text of a row
  // but the first one has the mark.
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> ends;  // by row: where its tokens end
  WrittenLabels targets;
  std::vector<SentenceText> texts;  // by row, if they are kept

  bool is_pair = false;
  int64_t texts_per_row = 1;  // of a row
  double score_scale = 1;     // what scores were divided by
  int64_t truncated = 0, left_out = 0;
  std::string columns;                            // for a log
  std::vector<std::string> groups = {};           // by row; SentenceSplit::groups
  std::shared_ptr<const SplitWords> words;        // only if words have labels
  int64_t cut_sentences = 0;                      // likewise
  std::vector<std::string> kept_columns = {};     // names of SentenceText::kept
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
  std::vector<SentenceTokenizer::Encoder> encoders_;  // one per thread
  int64_t empty_ = 0;
  std::string first_empty_;
  SentenceSet set_;
};

}  // namespace dtrain::data
