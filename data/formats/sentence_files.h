// Finds the files of a split of labelled sentences. They lie in one of four layouts: a table, columns of words, a
// folder of texts for each class, or fairseq's binarised folders.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

enum class SentenceLayout {
  kTable,         // DIR/train.tsv, .csv, .jsonl or .json
  kWords,         // DIR/train.conll, .bio, .iob or .iob2, or a .txt that LooksLikeColumns
  kClassFolders,  // DIR/train/CLASS/*.txt, one text per file
  kBinarised,     // DIR/input0/train.bin and .idx, perhaps DIR/input1/…, and DIR/label/train.bin or train.label
};

struct SentenceFiles {
  SentenceLayout layout = SentenceLayout::kTable;
  std::string split;  // its name on disk
  std::string path;   // the table, the split's folder, or the folder of the data
};

// The names to try for a split: those of folder_names.h, and for val also GLUE's dev and dev_matched.
std::vector<std::string> SentenceSplitNames(const std::string& split);

inline constexpr std::string_view kDocumentStart = "-DOCSTART-";  // the word of a line that begins a document

// Returns the columns of a line of words: what is between tabs, if there are any, else between spaces. None if it is
// blank.
std::vector<std::string_view> ColumnsIn(std::string_view line);

// Whether the beginning of a file of text is CoNLL's columns: lines with a word and other columns, always as many, of
// which the last is O or a tag such as B-PER, and blank lines between sentences.
bool LooksLikeColumns(std::string_view text);

// Whether the folder of a split holds class folders of texts: *.txt and no images.
bool HasTextFolders(const std::string& split_dir);

// Returns the path of a split of raw text: DIR/train.txt. Empty if there is none.
std::optional<std::string> FindTextFile(const std::string& data_dir, const std::string& split);

// Whether images lie in a folder itself.
bool HasImages(const std::string& folder);

// Returns the files of a split, which may be the whole name of a table; empty if there are none. Throws DataError if
// there are several, because one may be an older copy of the other.
std::optional<SentenceFiles> FindSentenceFiles(const std::string& data_dir, const std::string& split);

// The same, but throws DataError, which says what was looked for.
SentenceFiles RequireSentenceFiles(const std::string& data_dir, const std::string& split);

}  // namespace dtrain::data
