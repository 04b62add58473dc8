// Reads members of a tar archive (ustar, pax and GNU's long names) by position. Names are only compared and shown,
// never used as paths: nothing is unpacked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/storage.h"

namespace dtrain::data {

struct TarMember {
  std::string name;
  bool is_file = false;     // false for a folder, a link, …
  uint64_t data_begin = 0;  // bytes from the start of the archive
  uint64_t data_bytes = 0;
  uint64_t end = 0;  // offset of the next member
};

// Returns the member whose headers begin at `offset`; empty at the end of the archive, behind which are only zeros.
// Throws DamagedRecord (record_format.h).
std::optional<TarMember> ReadTarMember(const ReadableBytes& archive, uint64_t offset);

// Whether a block of 512 bytes is a header, judged by its checksum.
bool IsTarHeader(const uint8_t* block);

inline constexpr uint64_t kTarBlock = 512;  // bytes

// Returns header, content and padding of a file. Throws std::invalid_argument if the name has more than 100 bytes.
std::string MakeTarMember(const std::string& name, std::string_view content);

// Returns the two zero blocks that end an archive.
std::string MakeTarEnd();

}  // namespace dtrain::data
