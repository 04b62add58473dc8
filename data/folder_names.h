// What the names in a folder of data mean: which are splits, and which are no data (names with a leading dot, files
// that other programs leave behind, files of other kinds). The latter are skipped, but counted, so that a skipped file
// does not go unnoticed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

// Returns the name of a split in its shortest form: train for train/, as shells complete it, or ./train.
std::string ShortestSplitName(const std::string& split);

// Returns the names to try for a split, in order: {"val", "validation", "valid"} for val, on which data sets do not
// agree, else the split's name alone.
std::vector<std::string> SplitNames(const std::string& split);

// Returns the folders that splits may be in `data_dir`, under all of their names; none without a `data_dir`.
std::vector<std::string> SplitFolders(const std::string& data_dir, const std::vector<std::string>& splits);

// Whether this is one of the names of the validation split.
bool IsValidationName(const std::string& split);

// Whether a file or folder of this name (without its path) is never data, whatever it holds.
bool IsForeignName(std::string_view name);

// The names in a folder, sorted. Links count as what they lead to.
struct FolderContent {
  std::vector<std::string> folders = {};
  std::vector<std::string> files = {};
  std::vector<std::string> others = {};  // foreign names, and what is neither a folder nor a regular file
  std::string problem = {};              // why the rest is missing, if the folder could not be read
};
FolderContent ContentOf(const std::string& folder);

// Counts of skipped files and folders by kind, for messages: "names with a leading dot", "Thumbs.db", "*.txt".
using IgnoredFiles = std::map<std::string, int64_t>;

// Adds a skipped file or folder to the counts, unless it is our own index, which lies among the classes of a split ".".
void CountIgnored(std::string_view name, IgnoredFiles& ignored);

// Returns "ignored: 2 *.gif, 1 *.heic (images of kinds that are not read: convert them, as with magick mogrify
// -format jpg FILES), 1 Thumbs.db"; an empty string if nothing was ignored.
std::string ToText(const IgnoredFiles& ignored);

}  // namespace dtrain::data
