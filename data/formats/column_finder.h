// Finds columns of a table by the names that are given or by those that data sets commonly use, and reads columns of
// which each is one label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/table_reader.h"

namespace dtrain::data {

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

// Returns "'a', 'b'": the first ones of these names, for messages.
std::string NamesForPeople(const std::vector<std::string>& names);

// Returns the names of the columns whose cells are 1 rather than 0, each followed by kLabelSeparator. Throws DataError
// for any other cell.
std::string LabelsThatHold(std::span<const std::string> cells, std::span<const size_t> columns,
                           const TableReader& table, int64_t line);

}  // namespace dtrain::data
