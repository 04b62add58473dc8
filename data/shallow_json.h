// Reads JSON that comes from files of others, and writes what has their names. nlohmann::json parses without recursion,
// but copies, compares and writes recursively: a text nested a hundred thousand levels deep would overflow the stack
// later, wherever that happens first.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dtrain {

// Throws nlohmann::json::exception if `text` is not JSON or is nested more than 64 levels deep, which is deeper than
// anything that dtrain writes.
inline nlohmann::json ParseShallow(const std::string& text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {  // with a callback, the library's time grows with the square of a list
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kDeepest) throw nlohmann::json::other_error::create(502, "nested too deeply", nullptr);
  }
  return nlohmann::json::parse(text);
}

// Returns the object; null if `text` is none, or cannot be parsed.
inline nlohmann::json ParseObject(std::string_view text) {
  try {
    auto value = ParseShallow(std::string(text));
    if (value.is_object()) return value;
  } catch (const nlohmann::json::exception&) {  // the caller says where
  }
  return {};
}

// Returns the text of a value with names of files in it, which dump() would refuse unless they are UTF-8: their other
// bytes become U+FFFD. `indentation` is dump()'s.
template <typename Json>
std::string JsonText(const Json& value, int indentation = -1) {
  return value.dump(indentation, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Returns a line of JSON as Python's json writes it, in what every parser takes: NaN and the infinities, which JSON
// lacks, are null, halves of surrogate pairs U+FFFD, and numbers beyond 64 bits and beyond double texts of their
// digits.
std::string InPlainJson(std::string_view line);

// Returns what is wrong, for messages that begin with the file's name.
inline std::string WhyNotJson(const nlohmann::json::exception& error) {
  if (const auto* found = dynamic_cast<const nlohmann::json::parse_error*>(&error)) {
    return " is not JSON (at byte " + std::to_string(found->byte) + ")";
  }
  return " is not JSON of the kind that was expected";
}

// The rule for files in which other programs describe a model or a tokenizer: a field is known and followed, or known
// to change nothing, else it is refused by name. To ignore it would be to compute something else, unnoticed. Checks the
// fields of an object by a table, which is an object, too. Its row for a field is null if the field is followed
// elsewhere or changes nothing, a list of the only values that are followed, or a table for an object (or null). A
// field without a row may be null. Throws std::invalid_argument that names the first one which is not, or has another
// value.
void RequireKnownFields(const nlohmann::json& fields, const nlohmann::json& table);

}  // namespace dtrain
