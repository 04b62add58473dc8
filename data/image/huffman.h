// The entropy-coded part of a baseline JPEG: bits, Huffman codes, and the coefficients of a block.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "data/image/baseline_header.h"

namespace dtrain::data {

// Codes of up to kBits bits are looked up, longer ones searched.
class HuffmanTable {
 public:
  static constexpr int kBits = 10;
  static constexpr int kEndOfBlock = 64;  // as a run: beyond the block from anywhere in it

  // A code and what it says: `run` zeros, then a number of `size` bits. Size 0: the number is 0.
  struct Entry {
    uint8_t code_length = 0;  // bits; 0: there is no such code
    uint8_t length = 0;       // with the number
    uint8_t run = 0;
    uint8_t size = 0;
  };

  // False where the codes do not fit into their lengths.
  bool Build(const HuffmanCodes& codes);

  // From the next 64 bits, of which at least 16 count.
  Entry Find(uint64_t bits) const {
    const Entry entry = entries_[bits >> (64 - kBits)];
    return __builtin_expect(entry.code_length > 0, 1) ? entry : FindLong(static_cast<uint32_t>(bits >> 48));
  }

 private:
  Entry FindLong(uint32_t bits) const;

  std::array<Entry, 1 << kBits> entries_;
  std::array<uint32_t, 17> end_{};    // [n]: first 16-bit pattern after the codes of up to n bits
  std::array<int32_t, 17> offset_{};  // [n]: place of the first symbol of n bits, less its code
  std::array<uint8_t, 256> symbols_{};
};

// Bits from the front. Beyond a marker or the end it gives zeros and remembers that it did.
class BitReader {
 public:
  explicit BitReader(std::span<const uint8_t> bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Makes 32 bits ready: enough for a code and its number.
  [[gnu::always_inline]] void Refill() {
    if (ready_ >= 32) return;
    if (end_ - at_ >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, at_, 8);
      word = __builtin_bswap64(word);
      if (((~word - 0x0101010101010101ULL) & word & 0x8080808080808080ULL) == 0) {  // no byte is FF
        bits_ |= word >> ready_;
        at_ += (63 - ready_) >> 3;
        ready_ |= 56;
        return;
      }
    }
    *this = RefilledSlowly(*this);  // by value: its address would keep a reader out of registers
  }
  // The next bits, from the highest; call Refill before.
  uint64_t bits() const { return bits_; }
  void Skip(int count) {
    bits_ <<= count;
    ready_ -= count;
  }

  // Whether bits were taken that the file does not have.
  bool overrun() const { return ready_ < invented_; }

  // Goes past the restart marker that must come next, with less than a byte left before it. False: it does not.
  bool PassRestartMarker(int number);
  // Goes past the next marker, which must be the restart marker `number`, without looking at the data before it.
  bool SkipToRestartMarker(int number);

 private:
  [[gnu::cold, gnu::noinline]] static BitReader RefilledSlowly(BitReader reader);

  const uint8_t* at_;
  const uint8_t* end_;
  uint64_t bits_ = 0;  // from the highest
  int ready_ = 0;      // how many of them
  int invented_ = 0;   // how many of these are not in the file
};

// The position of the k-th coefficient of the zigzag, column by column: x·8 + y.
extern const std::array<uint8_t, 64> kZigzagByColumn;

// Reads a block. `block` has 64 zeros and gets the coefficients by column, not yet multiplied; null: they are skipped.
// `dc` is the component's last DC, and gets this one. Returns the number of zigzag positions in use, 1 to 64, or 0
// where the data are damaged.
int ReadBlock(BitReader& reader, const HuffmanTable& dc_table, const HuffmanTable& ac_table, int& dc, int16_t* block);

}  // namespace dtrain::data
