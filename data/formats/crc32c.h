// CRC-32C (Castagnoli): the checksum of TFRecord files and of our own index.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtrain::data {

// `crc` is that of the bytes before, so that pieces can be added one after the other.
uint32_t Crc32c(const void* bytes, size_t size, uint32_t crc = 0);

// As TFRecord stores it: rotated and shifted, so that a CRC over bytes that hold CRCs stays a good one.
uint32_t MaskedCrc32c(const void* bytes, size_t size);

}  // namespace dtrain::data
