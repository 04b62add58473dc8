// Reads small optional text files beside the data: class names, a pack's recipe, MXNet's index. They come from outside,
// as the data do: a pipe is refused rather than waited for, and a file larger than any such text is not read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/formats/random_access_file.h"

namespace dtrain::data {

// Returns the content of a file; empty if it does not exist. Throws DataError if it is not a regular file or has more
// than `most_bytes`.
inline std::string TextBeside(const std::string& path, uint64_t most_bytes = uint64_t{64} << 20) {
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return "";
  const std::vector<uint8_t> bytes = ReadWholeFile(path, most_bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace dtrain::data
