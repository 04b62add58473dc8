// The door for names of classes, which come from folders, tables and lists, and go into JSON, tables and classes.txt.
#pragma once

#include <string>
#include <vector>

#include "data/error.h"
#include "data/shown.h"
#include "data/text/utf8.h"

namespace dtrain::data {

// Throws DataError naming `place` unless all names are UTF-8 and without line breaks, since classes.txt has one a line.
inline void RequireClassNames(const std::vector<std::string>& names, const std::string& place) {
  for (const std::string& name : names) {
    const bool is_one_line = name.find_first_of("\r\n") == std::string::npos;
    if (is_one_line && IsUtf8(name)) continue;
    throw DataError(
        place + ": the name of the class '" + Shown(name) + "' " + (is_one_line ? "is not UTF-8" : "has a line break"),
        is_one_line ? "rename the class in UTF-8" : "rename the class, on one line");
  }
}

}  // namespace dtrain::data
