// Text files cut for many threads, and into lines as Python's text files have them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/formats/readable_bytes.h"

namespace dtrain::data {

// The lines of a file that begin in [begin, begin + bytes), whole, as they are: neighbouring ranges have each line
// once. Lines end with \n here.
std::string LinesBeginningIn(const ReadableBytes& file, uint64_t begin, uint64_t bytes);

// Takes the first line off the front of `text`, which is not empty, and returns it without its end: \n, \r\n or \r.
std::string_view TakeLine(std::string_view& text);

// Without white space at both ends, as Python's str.strip() takes it off (U+001C to U+001F too): fairseq's encoder does
// so to every line. Stops at what is no UTF-8.
std::string_view Stripped(std::string_view line);

}  // namespace dtrain::data
