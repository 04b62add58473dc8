// Tables of sentences (sentence_set.h). Rows are tokenized some thousands at a time, so that the texts of a table are
// in memory once, as the bytes of the file.
#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "data/error.h"
#include "data/sentences/sentence_set.h"
#include "data/shown.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr size_t kRowsAtOnce = 8192;
constexpr char kNoLabel[] = "-";

// A table and the columns that are read.
class OpenTable {
 public:
  OpenTable(const std::string& path, const SentenceOptions& options)
      : file_(path, options.csv_delimiter),
        cells_(options.target.has(LabelKind::kSeveral)
                   ? LabelCellsOf(file_.reader(), options.label_column, options.label_separator)
                   : LabelCells()),
        joins_pairs_(!options.target.of_texts || options.is_unlabelled),
        columns_(joins_pairs_
                     ? ChooseColumns(file_.reader(), NamesFor(path, options), options.target.labels.has_value())
                     : ChooseTextColumns(file_.reader(), NamesFor(path, options), options.scored)) {}

  TableReader& reader() { return file_.reader(); }
  const TableColumns& columns() const { return columns_; }
  const LabelCells& cells() const { return cells_; }  // if a row may have several labels
  uint64_t bytes() const { return file_.bytes(); }
  // Whether the second text is of one row with the first one, not by itself.
  bool joins_pairs() const { return joins_pairs_; }
  bool IsUnlabelled(const std::string& label) const { return columns_.dash_is_no_label && label == kNoLabel; }

 private:
  // A text in each line has no names of columns, whatever those of the training data are.
  ColumnNames NamesFor(const std::string& path, const SentenceOptions& options) const {
    if (TableFormatOf(path) == TableFormat::kLines) return {};
    return {options.text_column, options.pair_column, options.label_column, options.negative_column, cells_.by_column};
  }

  TableFile file_;
  const LabelCells cells_;
  const bool joins_pairs_;
  const TableColumns columns_;
};

void RequireSameKind(const OpenTable& table, const SentenceOptions& options, const std::string& path,
                     const std::string& columns) {
  const bool is_pair = table.columns().pair && table.joins_pairs();
  if (!options.is_pair || *options.is_pair == is_pair) return;
  throw DataError(
      path + (is_pair ? " has pairs of texts (" : " has single texts (") + columns +
          (options.is_unlabelled ? "), but the model reads " : "), but the model and the training data have ") +
          (*options.is_pair ? "pairs" : "single texts"),
      options.is_unlabelled ? "name the column to read with --text_column"
                            : "name the same columns in all splits: --text_column and --text_pair_column");
}

}  // namespace

SentenceSet ReadTable(const std::string& path, const SentenceOptions& options, const SentenceTokenizer& tokenizer) {
  OpenTable table(path, options);
  TableReader& reader = table.reader();
  const TableColumns& columns = table.columns();
  const std::string names = ToText(columns, reader);
  RequireSameKind(table, options, path, names);
  // The cells of a row: its texts, its labels, and what is passed on or, in place of that, its group.
  std::vector<size_t> selected = {columns.text};
  if (columns.pair) selected.push_back(*columns.pair);
  selected.insert(selected.end(), columns.negatives.begin(), columns.negatives.end());
  const size_t texts = selected.size(), labels = columns.labels.size(), read = texts + labels;
  selected.insert(selected.end(), columns.labels.begin(), columns.labels.end());
  if (table.cells().are_lists) reader.TakeLists(texts, table.cells().separator);
  const bool has_groups = !options.group_column.empty() && (labels > 0 || !table.joins_pairs());
  const std::vector<size_t> kept = has_groups
                                       ? std::vector{ColumnFinder(reader).Named(options.group_column, "--group_column")}
                                       : ColumnsToKeep(reader, options.kept_columns, selected);
  selected.insert(selected.end(), kept.begin(), kept.end());
  reader.Select(selected, read);
  if (options.keeps_going) reader.KeepGoing();

  SentenceOptions known = options;
  known.texts_per_row = table.joins_pairs() ? 1 : static_cast<int64_t>(texts);
  known.has_scores = !table.joins_pairs() && labels > 0;
  SentenceCollector collector(known, &tokenizer, columns.pair && table.joins_pairs());
  const uint32_t file = collector.AddFile(path, table.bytes());
  std::vector<RawSentence> rows;
  std::vector<std::string> groups;
  TableRow row;
  while (reader.Next(row)) {
    for (size_t i = 0; !table.joins_pairs() && i < texts; ++i) {
      if (!Stripped(row.cells[i]).empty()) continue;
      reader.Fail(row.line, "the text in '" + Shown(reader.header()[selected[i]], 60) + "' is empty",
                  "a row needs a text in each of these columns: " + names);
    }
    RawSentence raw{.text = {std::move(row.cells[0]), columns.pair ? std::move(row.cells[1]) : ""},
                    .negatives = {},
                    .label = "",
                    .place = {file, static_cast<int64_t>(row.offset)},
                    .line = row.line};
    for (size_t i = 2; i < texts; ++i) raw.negatives.push_back(std::move(row.cells[i]));
    if (labels > 0) {
      raw.label = columns.several_labels
                      ? LabelsThatHold(std::span(row.cells).subspan(texts, labels), columns.labels, reader, row.line)
                      : std::move(row.cells[texts]);
    }
    if (table.IsUnlabelled(raw.label)) {
      collector.LeaveOut(1);
      continue;
    }
    raw.text.error = row.error;
    if (has_groups) {
      groups.push_back(std::move(row.cells[read]));
    } else {
      raw.text.kept.assign(std::make_move_iterator(row.cells.begin() + static_cast<ptrdiff_t>(read)),
                           std::make_move_iterator(row.cells.end()));
    }
    rows.push_back(std::move(raw));
    if (rows.size() == kRowsAtOnce) collector.Add(std::exchange(rows, {}));
  }
  collector.Add(std::move(rows));
  collector.LeaveOut(reader.left_out());
  SentenceSet set = collector.Take();
  set.columns = names;
  set.groups = std::move(groups);
  const auto names_of = [&reader](const std::vector<size_t>& of) {
    std::vector<std::string> found;
    for (const size_t column : of) found.push_back(reader.header()[column]);
    return found;
  };
  if (columns.several_labels) set.names = names_of(columns.labels);
  if (!has_groups) set.kept_columns = names_of(kept);
  return set;
}

std::vector<std::string> LabelsOfTable(const std::string& path, const SentenceOptions& options) {
  SentenceOptions labelled = options;
  labelled.target = kClassTarget;
  OpenTable table(path, labelled);
  table.reader().Select(table.columns().labels);
  std::set<std::string, std::less<>> labels;
  TableRow row;
  while (table.reader().Next(row)) {
    const std::string_view label = Stripped(row.cells[0]);
    if (!label.empty() && !table.IsUnlabelled(row.cells[0]) && !labels.contains(label)) labels.emplace(label);
  }
  return {labels.begin(), labels.end()};
}

}  // namespace dtrain::data
