// CRC-32C (Castagnoli): the checksum of TFRecord files, of seek points and of dtrain's own index.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtrain::data {

// `crc` is the CRC of the preceding bytes, so that bytes can be added in pieces.
uint32_t Crc32c(const void* bytes, size_t size, uint32_t crc = 0);

// Returns the CRC as TFRecord stores it, rotated and offset by a constant, because a CRC over bytes that contain CRCs
// is weak.
uint32_t MaskedCrc32c(const void* bytes, size_t size);

}  // namespace dtrain::data
