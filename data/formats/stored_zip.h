// Finds the members of a zip archive without compression, as torch.save writes it: a tensor is then a range of bytes of
// the file and can be read in place, without decompression.
//
// Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "data/storage.h"

namespace dtrain::data {

struct StoredMember {
  uint64_t begin = 0;  // offset of its bytes in the file
  uint64_t size = 0;
  uint32_t crc32 = 0;
};

// Returns all members by name. Throws DataError, which names `path` and what is wrong with it, if a member is
// compressed or encrypted, leaves the file or overlaps another, or if a name occurs twice.
std::map<std::string, StoredMember> ReadStoredZip(const ReadableBytes& bytes, const std::string& path);

}  // namespace dtrain::data
