// The members of a tar archive (ustar, pax and GNU's long names), by position. Names are text here, never paths:
// nothing is unpacked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/formats/readable_bytes.h"

namespace dtrain::data {

struct TarMember {
  std::string name;
  bool is_file = false;     // else a folder, a link, …
  uint64_t data_begin = 0;  // bytes in the archive
  uint64_t data_bytes = 0;
  uint64_t end = 0;  // where the next member begins
};

// The member whose headers begin at `offset`; nullopt at the archive's end. Throws DamagedRecord (record_format.h).
std::optional<TarMember> ReadTarMember(const ReadableBytes& archive, uint64_t offset);

// Whether a block of 512 bytes is a header: its checksum fits.
bool IsTarHeader(const uint8_t* block);

inline constexpr uint64_t kTarBlock = 512;

// Header, content and padding of a file. The name is of 100 bytes at most. Throws std::invalid_argument.
std::string MakeTarMember(const std::string& name, std::string_view content);

// What an archive ends with.
std::string MakeTarEnd();

}  // namespace dtrain::data
