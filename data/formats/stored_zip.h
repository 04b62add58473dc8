// The members of a zip archive that are stored as they are, as torch.save writes all of its own: a tensor is then bytes
// at a place in the file, read there without a copy, and nothing is ever inflated.
// Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "data/formats/readable_bytes.h"

namespace dtrain::data {

struct StoredMember {
  uint64_t begin = 0;  // of its bytes in the file
  uint64_t size = 0;
  uint32_t crc32 = 0;
};

// All members by name. Throws DataError, which names `path` and what is wrong with it, unless every member is stored,
// lies in the file and overlaps no other, and no name is there twice.
std::map<std::string, StoredMember> ReadStoredZip(const ReadableBytes& bytes, const std::string& path);

}  // namespace dtrain::data
