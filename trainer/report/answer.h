// Prints the answer that the user asked a program for. Unlike progress, an answer must not get lost unnoticed.
#pragma once

#include <string>

namespace dtrain::report {

// Prints `text` and a line feed, or nothing if `text` is empty, and flushes stdout. Throws StorageError if that fails,
// because the disk is full or the reader of stdout is gone.
void PrintAnswer(const std::string& text);

}  // namespace dtrain::report
