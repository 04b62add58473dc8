// `pack.json`, which dtrain_data pack leaves beside what it has written: whoever reads the records need not guess what
// their first label is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dtrain::data {

inline constexpr char kPackRecipe[] = "pack.json";

// What records of this split call the first class; nullopt where `data_dir` is no pack of this format with this split.
std::optional<int64_t> FirstLabelOfPack(const std::string& data_dir, const std::string& format,
                                        const std::string& split);

}  // namespace dtrain::data
