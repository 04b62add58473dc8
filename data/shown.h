// Words of others (names of files, classes, tensors and hosts, what another program says) as a person may see them.
// A terminal obeys escape sequences, and a line feed in a name can forge a line of the log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

enum class LineFeeds { kEscaped, kKept };

// `text` on one line: control characters, bytes that are no UTF-8 and the invisible characters that change the order of
// others become \n, \x1b, \u202e. Printable text of any script stays as it is, backslashes too: shown twice is shown
// once. Of more than `max_bytes` the start, and how much it was. kKept is for texts of this program's own with several
// lines.
std::string Shown(std::string_view text, size_t max_bytes = std::string_view::npos,
                  LineFeeds line_feeds = LineFeeds::kEscaped);

}  // namespace dtrain
