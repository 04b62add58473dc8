// Tables of sentences (sentence_set.h). Rows are tokenized some thousands at a time, so that the texts of a table are
// in memory once, as the bytes of the file.
#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "data/error.h"
#include "data/formats/table_reader.h"
#include "data/sentences/sentence_set.h"
#include "data/sentences/table_columns.h"
#include "data/shown.h"
#include "data/text/text_lines.h"

namespace dtrain::data {
namespace {

constexpr size_t kRowsAtOnce = 8192;
constexpr char kNoLabel[] = "-";

// A table and the columns that are read.
class OpenTable {
 public:
  OpenTable(const std::string& path, const SentenceOptions& options)
      : file_(path, options.csv_delimiter),
        joins_pairs_(!options.target.of_texts || options.is_unlabelled),
        columns_(joins_pairs_
                     ? ChooseColumns(file_.reader(), NamesFor(path, options), options.target.labels.has_value())
                     : ChooseTextColumns(file_.reader(), NamesFor(path, options), options.scored)) {}

  TableReader& reader() { return file_.reader(); }
  const TableColumns& columns() const { return columns_; }
  uint64_t bytes() const { return file_.bytes(); }
  // Whether the second text is of one row with the first one, not by itself.
  bool joins_pairs() const { return joins_pairs_; }
  bool IsUnlabelled(const std::string& label) const { return columns_.dash_is_no_label && label == kNoLabel; }

 private:
  // A text in each line has no names of columns, whatever those of the training data are.
  static ColumnNames NamesFor(const std::string& path, const SentenceOptions& options) {
    if (TableFormatOf(path) == TableFormat::kLines) return {};
    const bool several = options.target.has(LabelKind::kSeveral) && options.label_separator.empty() &&
                         options.label_column.find(',') != std::string::npos;
    return {options.text_column, options.pair_column, options.label_column, options.negative_column, several};
  }

  TableFile file_;
  const bool joins_pairs_;
  const TableColumns columns_;
};

// Without a separator, or a column for each label, the labels of a row are a list in JSON.
void TakeLists(TableReader& reader, size_t place, const SentenceOptions& options) {
  const bool only_lists = options.label_separator.empty();
  if (only_lists && TableFormatOf(reader.name()) != TableFormat::kJsonLines) {
    throw Error(ExitCode::kUsage, reader.name() + " does not say where the labels of a text are",
                "give --label_separator for a column with several labels, or --label_column=A,B,C for a column of each "
                "label; JSON lines may have lists of labels");
  }
  reader.TakeLists(place, only_lists ? kLabelSeparator : options.label_separator, only_lists);
}

void RequireSameKind(const OpenTable& table, const SentenceOptions& options, const std::string& path,
                     const std::string& columns) {
  const bool is_pair = table.columns().pair && table.joins_pairs();
  if (!options.is_pair || *options.is_pair == is_pair) return;
  throw DataError(path + (is_pair ? " has pairs of texts (" : " has single texts (") + columns +
                      "), but the model and the training data have " + (*options.is_pair ? "pairs" : "single texts"),
                  "name the same columns in all splits: --text_column and --text_pair_column");
}

}  // namespace

SentenceSet ReadTable(const std::string& path, const SentenceOptions& options, const SentenceTokenizer& tokenizer) {
  OpenTable table(path, options);
  const TableColumns& columns = table.columns();
  const std::string names = ToText(columns, table.reader());
  RequireSameKind(table, options, path, names);
  std::vector<size_t> selected = {columns.text};
  if (columns.pair) selected.push_back(*columns.pair);
  selected.insert(selected.end(), columns.negatives.begin(), columns.negatives.end());
  const size_t texts = selected.size();
  if (columns.label && columns.labels.empty()) selected.push_back(*columns.label);
  const size_t first_label = texts;
  if (columns.label && columns.labels.empty() && options.target.has(LabelKind::kSeveral))
    TakeLists(table.reader(), first_label, options);
  selected.insert(selected.end(), columns.labels.begin(), columns.labels.end());
  const bool has_groups = !options.group_column.empty() && (columns.label || !table.joins_pairs());
  const size_t read = selected.size();
  const std::vector<size_t> kept =
      ColumnsToKeep(table.reader(), has_groups ? options.group_column : options.kept_columns,
                    has_groups ? std::vector<size_t>() : selected);
  selected.insert(selected.end(), kept.begin(), kept.end());
  table.reader().Select(selected, read);
  if (options.keeps_going) table.reader().KeepGoing();

  SentenceOptions known = options;
  known.texts_per_row = table.joins_pairs() ? 1 : static_cast<int64_t>(texts);
  known.has_scores = !table.joins_pairs() && columns.label;
  SentenceCollector collector(known, &tokenizer, columns.pair && table.joins_pairs());
  const uint32_t file = collector.AddFile(path, table.bytes());
  std::vector<RawSentence> rows;
  std::vector<std::string> groups;
  TableRow row;
  while (table.reader().Next(row)) {
    for (size_t i = 0; !table.joins_pairs() && i < texts; ++i) {
      if (!Stripped(row.cells[i]).empty()) continue;
      table.reader().Fail(row.line, "the text in '" + Shown(table.reader().header()[selected[i]], 60) + "' is empty",
                          "a row needs a text in each of these columns: " + names);
    }
    RawSentence raw{.text = {std::move(row.cells[0]), columns.pair ? std::move(row.cells[1]) : ""},
                    .negatives = {},
                    .label = !columns.label ? ""
                             : columns.labels.empty()
                                 ? std::move(row.cells[first_label])
                                 : LabelsThatHold(std::span(row.cells).subspan(first_label, read - first_label),
                                                  columns.labels, table.reader(), row.line),
                    .place = {file, static_cast<int64_t>(row.offset)},
                    .line = row.line};
    for (size_t i = 2; i < texts; ++i) raw.negatives.push_back(std::move(row.cells[i]));
    if (has_groups) groups.push_back(std::move(row.cells[read]));
    raw.text.error = row.error;
    if (!has_groups)
      raw.text.kept.assign(std::make_move_iterator(row.cells.begin() + static_cast<ptrdiff_t>(read)),
                           std::make_move_iterator(row.cells.end()));
    if (table.IsUnlabelled(raw.label)) {
      if (has_groups) groups.pop_back();
      collector.LeaveOut(1);
      continue;
    }
    rows.push_back(std::move(raw));
    if (rows.size() == kRowsAtOnce) collector.Add(std::exchange(rows, {}));
  }
  collector.Add(std::move(rows));
  collector.LeaveOut(table.reader().left_out());
  SentenceSet set = collector.Take();
  set.columns = names;
  set.groups = std::move(groups);
  if (!columns.labels.empty()) set.names.emplace();
  for (const size_t column : columns.labels) set.names->push_back(table.reader().header()[column]);
  for (const size_t column : kept) set.kept_columns.push_back(table.reader().header()[column]);
  return set;
}

std::vector<std::string> LabelsOfTable(const std::string& path, const SentenceOptions& options) {
  SentenceOptions labelled = options;
  labelled.target = kClassTarget;
  OpenTable table(path, labelled);
  table.reader().Select({*table.columns().label});
  std::set<std::string, std::less<>> labels;
  TableRow row;
  while (table.reader().Next(row)) {
    const std::string_view label = Stripped(row.cells[0]);
    if (!label.empty() && !table.IsUnlabelled(row.cells[0]) && !labels.contains(label)) labels.emplace(label);
  }
  return {labels.begin(), labels.end()};
}

}  // namespace dtrain::data
