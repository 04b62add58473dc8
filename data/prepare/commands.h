// The commands of dtrain_data. All print their result on stdout and their progress on stderr, and throw dtrain::Error.
#pragma once

#include "data/prepare/options.h"

namespace dtrain::data {

void Pack(const PrepareOptions& options);  // DataError if more records are bad than allowed
void MakeIndexes(const PrepareOptions& options);
void Tokenize(const PrepareOptions& options);  // DataError if a file cannot be read or the tokenizer is unusable
void Encode(const PrepareOptions& options);    // DataError if a line of stdin is not a JSON string
void Inspect(const PrepareOptions& options);
void Verify(const PrepareOptions& options);  // DataError if a record is bad
void Warm(const PrepareOptions& options);    // DataError if a file cannot be read

}  // namespace dtrain::data
