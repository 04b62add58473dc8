// `pack.json`, which dtrain_data pack writes beside its output. Readers of the records take their first label from it
// instead of guessing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dtrain::data {

inline constexpr char kPackRecipe[] = "pack.json";

// Returns the label that this split gives the first class; empty if `data_dir` is not a pack of this format with this
// split.
std::optional<int64_t> FirstLabelOfPack(const std::string& data_dir, const std::string& format,
                                        const std::string& split);

}  // namespace dtrain::data
