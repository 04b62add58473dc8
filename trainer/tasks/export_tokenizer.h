// Keeps the tokenizer of a text model with its run, and exports it as transformers' tokenizers read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/text_options.h"

namespace dtrain::tasks {

// Copies the tokenizer's files and the dict.txt, if it needs one, from beside the data into the run directory. Does
// nothing unless all of them are there. Throws StorageError.
void KeepTokenizer(const std::string& data_dir, const std::filesystem::path& run_directory);

// Copies the tokenizer that data::FindSentenceTokenizer finds, with the dict.txt beside it, if any, into the run
// directory. Does nothing if there is none, if it lacks the dictionary that it needs, or if it is the run's own. Throws
// StorageError.
void KeepSentenceTokenizer(const std::vector<std::string>& paths, const std::filesystem::path& run_directory);

// Returns the first folder that has a tokenizer with the ids of a model (vocab.json), or one with a dictionary. For
// each path it looks into the path itself and the folder above it, into the `tokenizer` subfolder of both, and into the
// one two levels above. Empty if there is none.
std::optional<std::filesystem::path> FindTokenizerToExport(const std::vector<std::string>& paths);

// A tokenizer for transformers. Of its `all` ids, those from `known` on are of tokens that are not in the dictionary.
struct ExportedTokenizer {
  int64_t known = 0, all = 0;
  std::map<std::string, std::string> files;  // name → content
};

// Returns vocab.json, merges.txt, special_tokens_map.json and tokenizer_config.json, from the files in the folder
// `tokenizer`; without a dictionary, its files themselves, of any kind, with a tokenizer_config.json that says it.
// Tokens that are not in the dictionary get the ids behind it: the model must treat these as <unk>. Throws DataError if
// there are more tokens than the model has.
ExportedTokenizer ExportTokenizer(const std::filesystem::path& tokenizer, const models::TextShape& model);

// For models that label words: makes transformers' byte-level tokenizers encode the first word of a text, and each word
// of a list, as words behind a space, as they were trained on. Other tokenizers stay as they are.
void PutSpacesBeforeWords(ExportedTokenizer& tokenizer);

}  // namespace dtrain::tasks
