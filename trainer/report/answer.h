// What a program was asked for and prints, unlike what it tells on the way: it must arrive.
#pragma once

#include <string>

namespace dtrain::report {

// Prints `text` and a line feed (nothing where it is empty), and waits until all that was printed is written. Throws
// StorageError: the disk that stdout goes to is full, or its reader is gone.
void PrintAnswer(const std::string& text);

}  // namespace dtrain::report
