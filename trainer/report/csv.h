// Fields of CSV files (RFC 4180).
#pragma once

#include <string>

namespace dtrain::report {

// As it stands between two commas: in quotes where it needs them.
std::string CsvField(const std::string& text);

}  // namespace dtrain::report
