#include "trainer/report/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace dtrain::report {

std::string CsvField(const std::string& text) {
  constexpr std::array<std::string_view, 12> kFormulas = {"=",  "+",  "-",  "@",  "\t", "\r",
                                                          "\n", "＝", "＋", "－", "＠", "'"};
  const bool is_formula =
      std::ranges::any_of(kFormulas, [&](std::string_view start) { return text.starts_with(start); });
  if (!is_formula && text.find_first_of(",;\t\"\r\n") == std::string::npos) return text;
  std::string quoted = is_formula ? "\"'" : "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string ShortestText(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr};
}

}  // namespace dtrain::report
