// The rule for the files in which other programs describe a model or a tokenizer: a field is known and followed, or
// known to change nothing, else it is refused by name. To ignore it would be to compute something else, unnoticed.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace dtrain {

// Checks the fields of an object by a table, which is an object, too. Its row for a field is null if the field is
// followed elsewhere or changes nothing, a list of the only values that are followed, or a table for an object (or
// null). Throws std::invalid_argument that names the first field without a row, or with another value.
void RequireKnownFields(const nlohmann::json& fields, const nlohmann::json& table);

}  // namespace dtrain
