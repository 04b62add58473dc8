#include "data/shallow_json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <system_error>

#include "data/joined.h"
#include "data/shown.h"

namespace dtrain {
namespace {

std::string Written(const nlohmann::json& value) {
  constexpr size_t kMostBytes = 80;
  return Shown(JsonText(value), kMostBytes);
}

// `place` is the path of the object with a dot, or empty.
void Require(const nlohmann::json& fields, const nlohmann::json& table, const std::string& place) {
  constexpr size_t kMostBytes = 80;
  if (!fields.is_object()) throw std::invalid_argument(place + Written(fields) + " is not a JSON object");
  for (const auto& [name, value] : fields.items()) {
    const std::string path = place + Shown(name, kMostBytes);
    const auto row = table.find(name);
    if (row == table.end() && value.is_null()) continue;
    if (row == table.end()) throw std::invalid_argument("the field " + path + " is not known here");
    if (row->is_object() && !value.is_null()) Require(value, *row, path + ".");
    if (!row->is_array() || std::find(row->begin(), row->end(), value) != row->end()) continue;
    throw std::invalid_argument(path + " is " + Written(value) + ", expected " + Joined(*row, " or ", Written));
  }
}

bool IsBeyond(std::string_view text, auto number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return stop == end && error == std::errc::result_out_of_range;
}

// Returns a word outside of quotes: a number, a name, or nothing.
std::string PlainWord(std::string_view word) {
  if (word == "NaN" || word == "Infinity" || word == "-Infinity") return "null";
  const bool is_beyond = word.starts_with('-') ? IsBeyond(word, int64_t{}) : IsBeyond(word, uint64_t{});
  return is_beyond || IsBeyond(word, double{}) ? '"' + std::string(word) + '"' : std::string(word);
}

// Returns the code unit of \uXXXX where `text` begins; 0 if it begins otherwise.
uint16_t EscapedUnit(std::string_view text) {
  constexpr size_t kBytes = 6;
  uint16_t unit = 0;
  if (text.size() < kBytes || !text.starts_with("\\u")) return 0;
  const auto [stop, error] = std::from_chars(text.data() + 2, text.data() + kBytes, unit, 16);
  return stop == text.data() + kBytes ? unit : uint16_t{0};
}

}  // namespace

std::string InPlainJson(std::string_view line) {
  const auto is_half = [](uint16_t unit, uint16_t first) { return unit >= first && unit < first + 0x400; };
  std::string plain;
  plain.reserve(line.size());
  bool is_quoted = false;
  while (!line.empty()) {
    size_t taken = 1;
    if (is_quoted && line.front() == '\\') {
      const uint16_t unit = EscapedUnit(line);
      const bool is_pair = is_half(unit, 0xD800) && is_half(EscapedUnit(line.substr(6)), 0xDC00);
      taken = std::min<size_t>(is_pair ? 12 : unit > 0 ? 6 : 2, line.size());
      const bool is_alone = !is_pair && (is_half(unit, 0xD800) || is_half(unit, 0xDC00));
      plain += is_alone ? "\\ufffd" : line.substr(0, taken);
    } else if (!is_quoted && line.find_first_of(" \t\r\n,:[]{}\"") > 0) {
      taken = std::min(line.find_first_of(" \t\r\n,:[]{}\""), line.size());
      plain += PlainWord(line.substr(0, taken));
    } else {
      is_quoted ^= line.front() == '"';
      plain += line.front();
    }
    line.remove_prefix(taken);
  }
  return plain;
}

void RequireKnownFields(const nlohmann::json& fields, const nlohmann::json& table) { Require(fields, table, ""); }

}  // namespace dtrain
