// Writes token files of a few lines for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/formats/little_endian.h"
#include "data/formats/token_dataset.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {

// Writes PREFIX.bin and PREFIX.idx of uint16 tokens into a folder.
inline void WriteTokens(const TemporaryFolder& folder, const std::string& prefix,
                        const std::vector<std::vector<uint16_t>>& lines) {
  std::string tokens, sizes, places;
  for (const auto& line : lines) {
    AppendLittleEndian(static_cast<int64_t>(tokens.size()), places);
    AppendLittleEndian(static_cast<int32_t>(line.size()), sizes);
    for (const uint16_t token : line) AppendLittleEndian(token, tokens);
  }
  const TokenIndexHeader header{.type = TokenType::kUInt16, .items = static_cast<int64_t>(lines.size())};
  folder.Write(prefix + ".bin", tokens);
  folder.Write(prefix + ".idx", MakeTokenIndexHeader(header) + sizes + places);
}

}  // namespace dtrain::data
