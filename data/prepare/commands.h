// What dtrain_data does, one function a command. All print their result on stdout and their progress on stderr, and
// throw dtrain::Error.
#pragma once

#include "data/prepare/options.h"

namespace dtrain::data {

void Pack(const PrepareOptions& options);
void MakeIndexes(const PrepareOptions& options);
void Tokenize(const PrepareOptions& options);  // DataError where a file cannot be read or a tokenizer be used
void Encode(const PrepareOptions& options);    // DataError where a line of stdin is no JSON string
void Inspect(const PrepareOptions& options);
void Verify(const PrepareOptions& options);  // DataError where a record is bad
void Warm(const PrepareOptions& options);    // DataError where a file cannot be read

}  // namespace dtrain::data
