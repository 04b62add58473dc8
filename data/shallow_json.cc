#include "data/shallow_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "data/joined.h"
#include "data/shown.h"

namespace dtrain {
namespace {

std::string Written(const nlohmann::json& value) {
  constexpr size_t kMostBytes = 80;
  return Shown(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), kMostBytes);
}

// `place` is the path of the object with a dot, or empty.
void Require(const nlohmann::json& fields, const nlohmann::json& table, const std::string& place) {
  constexpr size_t kMostBytes = 80;
  if (!fields.is_object()) throw std::invalid_argument(place + Written(fields) + " is not a JSON object");
  for (const auto& [name, value] : fields.items()) {
    const std::string path = place + Shown(name, kMostBytes);
    const auto row = table.find(name);
    if (row == table.end()) throw std::invalid_argument("the field " + path + " is not known here");
    if (row->is_object() && !value.is_null()) Require(value, *row, path + ".");
    if (!row->is_array() || std::find(row->begin(), row->end(), value) != row->end()) continue;
    throw std::invalid_argument(path + " is " + Written(value) + ", expected " + Joined(*row, " or ", Written));
  }
}

}  // namespace

void RequireKnownFields(const nlohmann::json& fields, const nlohmann::json& table) { Require(fields, table, ""); }

}  // namespace dtrain
