// Uses the CPU's CRC instruction if there is one (several GB/s), else a table.
#include "data/formats/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dtrain::data {
namespace {

constexpr uint32_t kReflectedPolynomial = 0x82F63B78;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t WithTable(const uint8_t* bytes, size_t size, uint32_t crc) {
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kTable[(crc ^ bytes[i]) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t WithInstruction(const uint8_t* bytes, size_t size, uint32_t crc) {
  uint64_t wide = crc;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; size > 0; ++bytes, --size) narrow = _mm_crc32_u8(narrow, *bytes);
  return narrow;
}

bool HasInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#endif

}  // namespace

uint32_t Crc32c(const void* bytes, size_t size, uint32_t crc) {
  const auto* begin = static_cast<const uint8_t*>(bytes);
#if defined(__x86_64__)
  if (HasInstruction()) return ~WithInstruction(begin, size, ~crc);
#endif
  return ~WithTable(begin, size, ~crc);
}

uint32_t MaskedCrc32c(const void* bytes, size_t size) {
  const uint32_t crc = Crc32c(bytes, size);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

}  // namespace dtrain::data
