// Makes text from outside (names of files, classes, tensors and hosts, messages of other programs) safe to print. A
// terminal obeys escape sequences, and a line feed in a name can forge a line of the log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

enum class LineFeeds { kEscaped, kKept };

// Returns `text` on one line: control characters, bytes that are not UTF-8 and invisible characters that reorder or
// hide text become \n, \x1b, \u202e. Printable text of any script stays unchanged, backslashes too, so that a second
// call changes nothing. A text of more than `max_bytes` is cut there, and its length is appended. kKept is for texts
// that this program wrote itself, with several lines.
std::string Shown(std::string_view text, size_t max_bytes = std::string_view::npos,
                  LineFeeds line_feeds = LineFeeds::kEscaped);

}  // namespace dtrain
