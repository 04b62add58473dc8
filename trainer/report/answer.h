// Prints the answer that the user asked a program for. Unlike progress, an answer must not get lost unnoticed.
#pragma once

#include <string>

namespace dtrain::report {

// Prints `text` and a line feed, or nothing if `text` is empty, and flushes stdout. Throws StorageError if that fails:
// the disk is full or, when only earlier output is flushed, the reader of stdout is gone. A reader of `text` itself
// that is gone has read enough of it.
void PrintAnswer(const std::string& text);

}  // namespace dtrain::report
