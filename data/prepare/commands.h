// The commands of dtrain_data, and what they share. All print their result on stdout and their progress on stderr, and
// throw dtrain::Error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/prepare/options.h"
#include "data/record_source.h"

namespace dtrain::data {

void Pack(const PrepareOptions& options);  // DataError if more records are bad than allowed
void MakeIndexes(const PrepareOptions& options);
void Tokenize(const PrepareOptions& options);  // DataError if a file cannot be read or the tokenizer is unusable
void Encode(const PrepareOptions& options);    // DataError if a line of stdin is not a JSON string
void Inspect(const PrepareOptions& options);
void Verify(const PrepareOptions& options);  // DataError if a record is bad
void Warm(const PrepareOptions& options);    // DataError if a file cannot be read

// Passes all places where the command is going to write through data::RequireOutputs, whose Error it throws.
void RequireOutputs(const PrepareOptions& options);

// Whether an earlier call of pack has filled the folder, or another machine is beginning to.
bool HoldsPack(const std::string& folder);

// Returns the list in which verify names bad records. Empty for folders of images, unless a folder was named for it,
// since nothing is to be left among people's photos.
std::string QuarantineList(const PrepareOptions& options);

// Returns the dict.txt in the folder of the token files PREFIX.bin and PREFIX.idx.
std::string DictionaryBeside(const std::string& prefix);

struct OpenSplit {
  std::string name;  // train, val, or the value of --split; for "." the folder, or train where it is packed
  std::unique_ptr<RecordSource> source;
};

// Returns the format that --data_format names, or else recognises it.
std::string FormatOf(const PrepareOptions& options);

// Whether each record of the format is a file by itself, in a folder of its class.
bool HoldsFiles(const std::string& format);

// Returns the names of the splits to process: --split, or train and val as far as they exist (verify: test, too, or "."
// if folders of images have none of these), or train, since opening it reports what is missing.
std::vector<std::string> SplitsOf(const PrepareOptions& options, const std::string& format);

// Opens them. Labels have the meaning that the training split gives them, even if it is not opened; if it does not
// exist, that of `classes`, else that of the first split. Throws DataError.
std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index, const Classes& classes = {});

// Returns --workers, or the number of cores that this process may use.
size_t Threads(const PrepareOptions& options);

}  // namespace dtrain::data
