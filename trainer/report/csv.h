// Fields of CSV files (RFC 4180) that spreadsheets show as they are.
#pragma once

#include <string>

namespace dtrain::report {

// What a CSV file begins with if Excel is to know that it is UTF-8.
inline constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

// Returns `text` as a field, in quotes if it contains a separator, a quote or the end of a line. The names of classes
// and files come from outside, and a spreadsheet would compute "=1+1". So a text that begins with = + - @ (also in full
// width), a tab, or the end of a line gets a ' in front, as OWASP advises against CSV injection
// (https://owasp.org/www-community/attacks/CSV_Injection), and so does one that begins with ': readers get the text
// back by removing one leading '.
std::string CsvField(const std::string& text);

// Returns the shortest text that reads back as the float which a model has computed.
std::string ShortestText(double value);

}  // namespace dtrain::report
