// Reads tables of text strictly: a damaged table is an error that names file and line, never a row less. Columns are
// found by their names and selected before rows are read, so that long columns that nobody needs cost no memory.
//
//   TSV    cells between tabs; quotes are ordinary characters, as in GLUE's files
//   CSV    RFC 4180, or with ; or tabs for commas, as spreadsheets of many countries write it: what the header has most
//          of, unless it is said; a cell in double quotes may hold commas, line ends, and double quotes written twice
//   JSONL  an object in each line; its first line names the columns
//   lines  one column, `text`, without a header
//
// Lines end with \n or \r\n, a byte order mark and empty lines at the end are skipped. Rows of TSV and CSV that are
// empty in every cell, as spreadsheets leave them, are counted rather than read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

enum class TableFormat { kTsv, kCsv, kJsonLines, kLines };

// By the ending of a file's name, in any case: .tsv, .csv, .jsonl or .txt; empty for any other.
std::optional<TableFormat> TableFormatOf(const std::string& path);

inline constexpr size_t kMostCellBytes = size_t{1} << 20;

struct TableRow {
  int64_t line = 0;                // from 1; where the row begins
  uint64_t offset = 0;             // bytes; likewise
  std::vector<std::string> cells;  // those of the selected columns, in the order of their selection
  std::string error = {};  // with KeepGoing, why the row cannot be used; its cells are empty then, but for those
                           // that are only passed on, where they could be told apart
};

class TableReader {
 public:
  // `text` is the content of the file `name`, and must outlive the reader. Throws DataError if there is no header.
  // `delimiter` separates the cells of CSV; 0: `,`, `;` or a tab, whichever the header has most of.
  TableReader(std::string name, std::string_view text, TableFormat format, char delimiter = 0);

  const std::string& name() const { return name_; }
  TableFormat format() const { return format_; }
  const std::vector<std::string>& header() const { return header_; }

  // Declares that the first line holds data, as in CoLA's files, and gives the columns these names.
  void FirstLineIsData(std::vector<std::string> names);
  // Rows with another number of cells than the header are then counted rather than errors.
  void LeaveOutRaggedRows() { leaves_out_ragged_ = true; }
  int64_t left_out() const { return left_out_; }  // such rows, and empty ones
  // A row that cannot be read then has its `error`, and the next one is read: a prediction has a line for each row.
  void KeepGoing() { keeps_going_ = true; }

  // Columns are given by their positions in the header. Without a call no cells are returned.
  // Those from `unread` on are only passed on: they may hold anything but a cell that is too long.
  void Select(std::vector<size_t> columns, size_t unread = SIZE_MAX) {
    selected_ = std::move(columns);
    unread_ = unread;
  }

  // A selected cell of this place may then be an array of texts in JSON: the cell is these with `separator` in between.
  // Any other value there is an error if that is kLabelSeparator, which no text has.
  void TakeLists(size_t place, std::string separator) {
    lists_ = place;
    separator_ = std::move(separator);
  }

  // Reads the next row; returns false at the end. Throws DataError if the row has another number of cells than the
  // header, is no JSON object or has no end of quotes, or if a selected cell is longer than kMostCellBytes, is not
  // UTF-8, holds a NUL, or is an array or an object (but see TakeLists); with KeepGoing these are the row's error. A
  // selected key that a JSON object lacks is an empty cell.
  bool Next(TableRow& row);

  // Throws DataError for `line` of this file.
  [[noreturn]] void Fail(int64_t line, const std::string& what, const std::string& hint = "") const;

 private:
  bool Read(TableRow& row);
  // Each takes the cells of the next line or row off rest_.
  std::vector<std::string_view> TakeCells();
  std::vector<std::string_view> TakeTsvCells();
  std::vector<std::string_view> TakeCsvCells();
  std::string_view TakeCsvCell();
  std::string_view TakeQuoted();
  std::string_view TakeLine();
  void FillFromObject(std::string_view line, TableRow& row) const;
  std::string JoinedList(const std::string& name, const nlohmann::json& list) const;
  // `place` is that of the column among the selected ones.
  void CheckCell(std::string_view cell, size_t place) const;
  void Require(bool is_short_enough) const;
  void Begin();
  // Leaves out blank lines at the end. Not for tables of one column, where each is a row, so that predictions have as
  // many rows as the file has lines.
  void LeaveOutBlankEnd();

  const std::string name_;
  std::string_view text_;  // without the byte order mark
  const TableFormat format_;
  char delimiter_;
  std::string_view rest_;
  int64_t next_line_ = 1;
  int64_t line_ = 1;  // where the current row began
  std::vector<std::string> header_;
  std::vector<size_t> selected_;
  size_t unread_ = SIZE_MAX, lists_ = SIZE_MAX;
  std::string separator_;
  std::deque<std::string> unquoted_;  // cells of the current row in which double quotes were written twice
  bool leaves_out_ragged_ = false;
  int64_t left_out_ = 0;
  bool keeps_going_ = false;
  bool has_taken_row_ = false;  // rest_ begins behind the current row
};

// A table in a file, with the file's content.
class TableFile {
 public:
  // Throws DataError if the file cannot be read, needs more memory than there is, or has no ending of a table's name.
  explicit TableFile(const std::string& path, char delimiter = 0);

  TableReader& reader() { return reader_; }
  uint64_t bytes() const { return text_.size(); }

 private:
  const std::string text_;
  TableReader reader_;
};

// ---- Columns ----

// The names of columns of labels, in lower case.
inline constexpr std::string_view kLabelColumns[] = {"label",      "labels", "gold_label", "score",    "is_duplicate",
                                                     "quality",    "target", "class",      "category", "sentiment",
                                                     "similarity", "rating", "stars",      "intent",   "topic"};

class ColumnFinder {
 public:
  // `table` must outlive the finder.
  explicit ColumnFinder(const TableReader& table);

  // Returns the column of this name, in lower case; empty if there is none.
  std::optional<size_t> Find(std::string_view known) const;

  // Returns the column that the user has named with `flag`, or numbered from 0 if none has this name. Throws DataError
  // if there is none, or if two have the name.
  size_t Named(const std::string& name, const std::string& flag) const;

  // The same for several names with commas between them; none for an empty text.
  std::vector<size_t> AllNamed(const std::string& names, const std::string& flag) const;

  // Returns the columns with one of the known names, or with the first of them and a number, as label_2.
  std::vector<size_t> AllOf(std::span<const std::string_view> known) const;

  // Returns the only column with one of the known names, other than those in `taken`. Throws DataError if there is
  // none, or if there are several.
  size_t Only(std::span<const std::string_view> known, const std::vector<size_t>& taken, const std::string& what,
              const std::string& flag) const;

 private:
  const TableReader& table_;
  std::vector<std::string> lower_;
};

// Throws DataError if a column is twice among `columns`, which are those of `what`, chosen by `flags`.
void RequireDistinct(std::vector<size_t> columns, const TableReader& table, const std::string& what,
                     const std::string& flags);

// How the labels of a row are written if it may have several.
struct LabelCells {
  bool by_column = false;  // in a column for each label, which has 1 where it holds
  bool are_lists = false;  // as lists in JSON, or perhaps as texts with the separator
  std::string separator;   // between those of a cell
};

// Follows from the values of --label_column and --label_separator. Throws Error (exit code 2) if these do not say it.
LabelCells LabelCellsOf(const TableReader& table, const std::string& label_column, const std::string& separator);

// Returns "'a', 'b'": the first ones of these names, for messages.
std::string NamesForPeople(const std::vector<std::string>& names);

// Returns the names of the columns whose cells are 1 rather than 0, each followed by kLabelSeparator. Throws DataError
// for any other cell.
std::string LabelsThatHold(std::span<const std::string> cells, std::span<const size_t> columns,
                           const TableReader& table, int64_t line);

}  // namespace dtrain::data
