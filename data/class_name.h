// The door for names of classes, which come from folders, tables and lists, and go into JSON, tables and classes.txt.
#pragma once

#include <string>
#include <vector>

#include "data/error.h"
#include "data/shown.h"
#include "data/text/utf8.h"

namespace dtrain::data {

// Throws DataError naming `place` unless all names are UTF-8.
inline void RequireClassNames(const std::vector<std::string>& names, const std::string& place) {
  for (const std::string& name : names) {
    if (IsUtf8(name)) continue;
    throw DataError(place + ": the name of the class '" + Shown(name) + "' is not UTF-8", "rename the class in UTF-8");
  }
}

}  // namespace dtrain::data
