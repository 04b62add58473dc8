// Finds the columns of text and labels in a table, by the names given or by those that data sets commonly use.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/table_reader.h"

namespace dtrain::data {

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

}  // namespace dtrain::data
