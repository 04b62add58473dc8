// Cuts text files for many threads, and into lines as Python does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/storage.h"

namespace dtrain::data {

// Returns the whole lines of a file that begin in [begin, begin + bytes), unchanged, so that neighbouring ranges have
// each line once. Here, lines end with \n. Throws DataError if the file cannot be read.
std::string LinesBeginningIn(const ReadableBytes& file, uint64_t begin, uint64_t bytes);

// What editors of Windows write at the beginning of a file, and by which Excel knows that a CSV file is UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

inline std::string_view WithoutByteOrderMark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

// Removes the first line from `text`, which must not be empty, and returns it without its end: \n, \r\n or \r.
std::string_view TakeLine(std::string_view& text);

// Returns the line without white space at both ends, as defined by Python's str.strip() (including U+001C to U+001F):
// fairseq's encoder strips every line. Stops at invalid UTF-8.
std::string_view Stripped(std::string_view line);

}  // namespace dtrain::data
