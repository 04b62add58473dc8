// What labels mean as they are written in files: names of classes, or numbers to predict.
#pragma once

#include <cstdint>
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
