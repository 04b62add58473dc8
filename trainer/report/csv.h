// Fields of CSV files (RFC 4180).
#pragma once

#include <string>

namespace dtrain::report {

// Returns `text` as a field, in quotes if it contains a comma, a quote or the end of a line.
std::string CsvField(const std::string& text);

}  // namespace dtrain::report
