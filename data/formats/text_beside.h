// Small texts that lie beside data and need not be there: the names of classes, a pack's recipe, MXNet's index. They
// come from outside like the data itself: a pipe is not waited for, and what is larger than any such text is not read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/formats/random_access_file.h"

namespace dtrain::data {

// Empty where there is no such file. Throws DataError where it is no regular file, or has more than `most_bytes`.
inline std::string TextBeside(const std::string& path, uint64_t most_bytes = uint64_t{64} << 20) {
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return "";
  const std::vector<uint8_t> bytes = ReadWholeFile(path, most_bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace dtrain::data
