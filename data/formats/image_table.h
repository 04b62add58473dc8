// Images whose labels are in a table, one image a row, below a folder of any layout. All that is wrong with the table
// is found when it is opened, and named with its line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

struct LabelTable {
  std::string path = {};  // .csv, .tsv or .jsonl; empty: there is none
  // Names of columns. Empty: found among the names that data sets commonly use; there need be none of splits.
  std::string image_column = {}, label_column = {}, split_column = {};
  std::string group_column = {};  // empty: none
  // What is between several labels in a cell. Empty: label_column names a column for each label, with commas between.
  std::string separator = {};
  char delimiter = 0;  // of the cells in .csv; 0: found in the header
};

// The value of LabelTable::delimiter for a word of --csv_delimiter.
char DelimiterNamed(const std::string& word);

// Returns the names in the column of splits, in the order of their first rows; none without such a column. Throws
// DataError if the table cannot be read.
std::vector<std::string> SplitsIn(const LabelTable& table);

// Whether there are images of the split. Without a column of splits all images are of `train`.
bool HasSplit(const LabelTable& table, const std::string& split);

class ImageTable : public RecordSource {
 public:
  // Paths are relative to `folder`, or if that is empty to the table's own folder, and stay in it. A name without the
  // ending of an image is tried with those of JPEG and PNG. `known` has the classes of the training split. Throws
  // DataError, which names the line, for a row without path or label, a label that is not of `kind` or of no known
  // class, an image that is not there, has two labels or is in two splits, or if no row is of the split.
  ImageTable(const LabelTable& table, const std::string& folder, const std::string& split, LabelKind kind,
             const Classes& known);

  int64_t size() const override { return static_cast<int64_t>(ends_.size()); }
  int64_t Label(int64_t index) const override;
  int64_t num_targets() const override { return kind_ == LabelKind::kClass ? 0 : static_cast<int64_t>(names_.size()); }
  void Targets(int64_t index, std::span<float> targets) const override;
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override { return {folder_ + "/" + PathOf(static_cast<size_t>(index))}; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string fingerprint() const override { return fingerprint_; }

  // By index: the cells of group_column, and rows of one image are of one group; empty without either.
  const std::vector<std::string>& groups() const { return groups_; }

 private:
  std::string PathOf(size_t row) const;

  const std::string folder_;
  const LabelKind kind_;
  std::string paths_;           // one after another, relative to the folder
  std::vector<uint64_t> ends_;  // by row: where its path ends
  std::vector<std::string> names_;
  std::vector<int32_t> classes_;      // kClass: by row; kSeveral: of all rows
  std::vector<uint64_t> class_ends_;  // kSeveral: by row, where its classes end
  std::vector<float> numbers_;        // kNumbers: of all rows
  std::vector<std::string> groups_;
  std::string fingerprint_;
};

}  // namespace dtrain::data
