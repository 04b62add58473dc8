#include "data/formats/pack_recipe.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace dtrain::data {

std::optional<int64_t> FirstLabelOfPack(const std::string& data_dir, const std::string& format,
                                        const std::string& split) {
  std::ifstream file(data_dir + "/" + kPackRecipe);
  if (!file) return std::nullopt;
  const auto recipe = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!recipe.is_object() || recipe.value("format", nlohmann::json()) != format) return std::nullopt;
  const nlohmann::json splits = recipe.value("splits", nlohmann::json());
  const nlohmann::json first = recipe.value("first_label", nlohmann::json());
  if (!splits.is_object() || !splits.contains(split) || (first != 0 && first != 1)) return std::nullopt;
  return first.get<int64_t>();
}

}  // namespace dtrain::data
