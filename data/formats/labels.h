// What labels mean as they are written in files, of sentences and of images: names of classes, numbers to predict, or
// the numbers of classes, which count from 0 or from 1 in the files of a set, and from 0 inside dtrain. All formats
// share these rules, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

// Parses a decimal number such as 4, -0.25 or 1e-3. Empty for anything else, and for infinities.
std::optional<double> DecimalNumber(std::string_view text);

// Returns the names sorted: by value if all are whole numbers, else by their bytes.
std::vector<std::string> SortedClasses(std::vector<std::string> names);

// Whether all labels are decimal numbers of which some are not written as whole ones, such as 1.0.
bool AreDecimals(const std::vector<std::string>& labels);
// Whether all labels are decimal numbers of which some are not whole, such as 3.8.
bool HaveFractions(const std::vector<std::string>& labels);

// Throws DataError naming `place` unless all names of classes are UTF-8 and without line breaks, since they go into
// JSON, tables and classes.txt, which has one a line.
void RequireClassNames(const std::vector<std::string>& names, const std::string& place);

// The file with the names of classes beside the data, one per line, in label order.
inline constexpr char kClassFile[] = "classes.txt";

// Returns its lines that are not empty; none if the folder has no such file. Throws DataError if it cannot be read.
std::vector<std::string> ReadClassNames(const std::string& folder);

// The same without white space around the names. Throws DataError if a name occurs twice.
std::vector<std::string> ListedClasses(const std::string& folder);

// A label as it is written, and the first place where it is.
struct SeenLabel {
  std::string name, place;
};

// What is between the labels of a row if nothing else is said: no text has it.
inline constexpr char kLabelSeparator[] = "\x1F";

// What rows say, however many labels one has: one, several, one for each word, or numbers.
struct WrittenLabels {
  std::vector<SeenLabel> seen;  // each label once
  // Positions in `seen`. One label a row: by row; several: of all rows; of words: by token, -1 where it has none.
  std::vector<int32_t> labels;
  std::vector<uint64_t> ends;        // by row, if it has several: where its labels end
  std::vector<float> numbers;        // in place of labels; by row, as many for each as are added
  std::vector<int64_t> first_words;  // of words, by row: the number of the first word with a label

  // Adds a label that is written at `where`.
  void Add(const std::string& label, const std::string& where) { labels.push_back(NumberOf(label, where)); }
  int32_t NumberOf(const std::string& label, const std::string& where);
  // Adds the labels of a row, which `separator` separates. White space around them is no part of them.
  void AddSeveral(std::string_view row, const std::string& separator, const std::string& where);
  // Adds a number. Throws DataError if the label is none, or its square has no float32.
  void AddNumber(const std::string& label, const std::string& where);

 private:
  std::map<std::string, int32_t, std::less<>> numbers_of_;
};

// What is known about the classes of a split before its labels are read; see SentenceOptions.
struct KnownClasses {
  std::vector<std::string> names = {};            // of the training split or a checkpoint; no others may occur
  std::vector<std::string> listed = {};           // of classes.txt; no others may occur
  std::vector<std::string> preferred_order = {};  // taken if these are the names that occur
};

// Returns the classes in label order. Throws DataError, which names a place, if a label is outside them or if all are
// decimals.
std::vector<std::string> ClassesOf(const std::vector<SeenLabel>& seen, const KnownClasses& known);

// Returns 1 for labels that are exactly 1…C, 0 for exactly 0…C−1 or for no labels, and an empty optional for any
// others. −1 means that a record has no label.
std::optional<int64_t> LabelOffsetOf(std::vector<int64_t> labels);

// Returns `known` with the label offset filled in and, if the number of classes is unknown, that number (from the
// highest label). The offset is `user_offset` if the user gave one; else that of `known`; else the only one with which
// the labels fit the number of classes; else, if that number is unknown, LabelOffsetOf. `labels` may hold −1 for
// records without a label; `where_is` returns the place of the first record with a label, for messages. Throws
// DataError if neither or both of the offsets 0 and 1 fit, or if a label lies outside the classes.
Classes ResolveLabels(std::vector<int64_t> labels, std::optional<int64_t> user_offset, Classes known,
                      const std::function<std::string(int64_t label)>& where_is);

// Returns `known` with the class names that the set's own file `path` gives; `names` may be empty. Throws DataError if
// they differ from the known names or number of classes.
Classes WithNames(Classes known, const std::vector<std::string>& names, const std::string& path);

}  // namespace dtrain::data
