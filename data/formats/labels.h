// What labels mean as they are written in files, of sentences and of images: names of classes, or numbers to predict.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

// Parses a decimal number such as 4, -0.25 or 1e-3. Empty for anything else, and for infinities.
std::optional<double> DecimalNumber(std::string_view text);

// Returns the names sorted: by value if all are whole numbers, else by their bytes.
std::vector<std::string> SortedClasses(std::vector<std::string> names);

// Whether all labels are decimal numbers of which some are not written as whole ones, such as 1.0.
bool AreDecimals(const std::vector<std::string>& labels);
// Whether all labels are decimal numbers of which some are not whole, such as 3.8.
bool HaveFractions(const std::vector<std::string>& labels);

// Reads classes.txt, one name per line; empty if the folder has none. Throws DataError if a name occurs twice.
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

}  // namespace dtrain::data
