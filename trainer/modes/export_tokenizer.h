// The tokenizer that goes with a model of text, as transformers' RobertaTokenizer takes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/roberta_options.h"

namespace dtrain::loop {

// Where a run keeps the tokenizer's files and the dictionary of its data: RUN_DIR/tokenizer.
inline constexpr char kTokenizerFolder[] = "tokenizer";

// Copies dict.txt and the tokenizer's files that lie beside the data into the run directory; those that are there.
void KeepTokenizer(const std::string& data_dir, const std::filesystem::path& run_directory);

// The first folder with a dictionary and a tokenizer: of each path itself, its `tokenizer` folder, and those of the
// folder that it is in.
std::optional<std::filesystem::path> FindTokenizerToExport(const std::vector<std::string>& paths);

// Writes vocab.json, merges.txt and what names the special tokens into `folder`. Tokens that are not in the dictionary
// are <unk>. Throws DataError where dictionary and model disagree.
void ExportTokenizer(const std::filesystem::path& tokenizer, const models::RobertaOptions& model,
                     const std::filesystem::path& folder);

}  // namespace dtrain::loop
