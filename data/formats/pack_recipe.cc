#include "data/formats/pack_recipe.h"

#include <nlohmann/json.hpp>

#include "data/formats/text_beside.h"

namespace dtrain::data {

std::optional<int64_t> FirstLabelOfPack(const std::string& data_dir, const std::string& format,
                                        const std::string& split) {
  const auto recipe =
      nlohmann::json::parse(TextBeside(data_dir + "/" + kPackRecipe), nullptr, /*allow_exceptions=*/false);
  if (!recipe.is_object()) return std::nullopt;
  // Values are compared in place: copying one would recurse into whatever is nested in it.
  const auto is = [&recipe](const char* key, const auto& value) {
    const auto found = recipe.find(key);
    return found != recipe.end() && found->is_primitive() && *found == value;
  };
  const auto splits = recipe.find("splits");
  const bool has_split = splits != recipe.end() && splits->is_object() && splits->contains(split);
  if (!has_split || !is("format", format)) return std::nullopt;
  for (const int64_t first : {0, 1}) {
    if (is("first_label", first)) return first;
  }
  return std::nullopt;
}

}  // namespace dtrain::data
