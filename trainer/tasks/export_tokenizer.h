// Keeps the tokenizer of a text model with its run, and exports it as transformers' RobertaTokenizer reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/roberta_options.h"

namespace dtrain::loop {

// The subfolder of a run directory that holds the tokenizer's files and the dictionary of the data.
inline constexpr char kTokenizerFolder[] = "tokenizer";

// Copies dict.txt and the tokenizer's files from beside the data into the run directory. Does nothing unless all of
// them are there. Throws StorageError.
void KeepTokenizer(const std::string& data_dir, const std::filesystem::path& run_directory);

// Returns the first folder that has a dictionary and a tokenizer. For each path it looks into the path itself and the
// folder above it, into the `tokenizer` subfolder of both, and into the one two levels above. Empty if there is none.
std::optional<std::filesystem::path> FindTokenizerToExport(const std::vector<std::string>& paths);

// A tokenizer for transformers. Of its `all` ids, those from `known` on are of tokens that are not in the dictionary.
struct ExportedTokenizer {
  int64_t known = 0, all = 0;
  std::map<std::string, std::string> files;  // name → content
};

// Returns vocab.json, merges.txt, special_tokens_map.json and tokenizer_config.json, from the files in the folder
// `tokenizer`. Tokens that are not in the dictionary get the ids behind it: the model must treat these as <unk>. Throws
// DataError if the dictionary has more tokens than the model.
ExportedTokenizer ExportTokenizer(const std::filesystem::path& tokenizer, const models::RobertaOptions& model);

}  // namespace dtrain::loop
