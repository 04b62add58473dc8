// The entropy-coded part of a baseline JPEG: bits, Huffman codes, and the coefficients of a block.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "data/image/jpeg/baseline_header.h"

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

  // The same, only codes of up to kBits bits.
  Entry FindShort(uint64_t bits) const { return entries_[bits >> (64 - kBits)]; }

 private:
  Entry FindLong(uint32_t bits) const;

  std::array<Entry, 1 << kBits> entries_;
  std::array<uint32_t, 17> end_{};    // [n]: first 16-bit pattern after the codes of up to n bits
  std::array<int32_t, 17> offset_{};  // [n]: place of the first symbol of n bits, less its code
  std::array<uint8_t, 256> symbols_{};
};

// The codes of AC coefficients, looked up two at a time: a photograph's take six bits each, with their numbers.
class AcTable {
 public:
  static constexpr int kBits = 11;

  // One or two coefficients, or one and the end of the block, or the end alone. An advance is the zeros and the
  // coefficient; of an end it is kEndOfBlock; of a second that is not there 0.
  struct Pair {
    uint8_t length = 0;             // bits of all
    uint8_t first_code_length = 0;  // the first number's bits are not looked up: they may be too many
    uint8_t first_size = 0;
    uint8_t first_advance = 2 * kEndOfBlock;  // as it is here: a code that is too long for this table
    uint8_t second_advance = 0;
    int16_t second = 0;
  };

  bool Build(const HuffmanCodes& codes);

  Pair FindPair(uint64_t bits) const { return pairs_[bits >> (64 - kBits)]; }
  HuffmanTable::Entry FindOne(uint64_t bits) const { return one_.Find(bits); }

  static constexpr int kEndOfBlock = HuffmanTable::kEndOfBlock;

 private:
  HuffmanTable one_;
  std::array<Pair, 1 << kBits> pairs_;
};

// Bits from the front of bytes that hold nothing else: no markers, no stuffed zeros.
class BitReader {
 public:
  static constexpr size_t kPadding = 512;  // bytes after the end that can be read, whatever they are

  BitReader() = default;
  BitReader(std::span<const uint8_t> bytes, int first_bit)
      : begin_(bytes.data()), at_(begin_), bits_in_all_(8 * static_cast<ptrdiff_t>(bytes.size())) {
    Refill();
    Skip(first_bit);
  }

  // Makes 56 bits ready. The bytes were loaded while the last code was looked up, and there is no branch to predict.
  [[gnu::always_inline]] void Refill() {
    uint64_t word = 0;
    std::memcpy(&word, at_, 8);
    bits_ |= __builtin_bswap64(word) >> ready_;
    at_ += (63 - ready_) >> 3;
    ready_ |= 56;
  }
  // The next bits, from the highest; call Refill before.
  uint64_t bits() const { return bits_; }
  void Skip(int count) {
    bits_ <<= count;
    ready_ -= count;
  }

  // How many bits there still are; negative where more were taken. A block takes less than the padding holds.
  ptrdiff_t left() const { return bits_in_all_ - 8 * (at_ - begin_) + ready_; }

 private:
  const uint8_t* begin_ = nullptr;
  const uint8_t* at_ = nullptr;
  ptrdiff_t bits_in_all_ = 0;
  uint64_t bits_ = 0;  // from the highest
  int ready_ = 0;      // how many of them are certain
};

// The position of the k-th coefficient of the zigzag, column by column: x·8 + y.
extern const std::array<uint8_t, 64> kZigzagByColumn;

// Reads a block. `block` has 64 zeros and gets the coefficients by column, not yet multiplied; null: they are skipped.
// `dc` is the component's last DC, and gets this one. Returns the number of zigzag positions in use, 1 to 64, or 0
// where the data are damaged.
int ReadBlock(BitReader& reader, const HuffmanTable& dc_table, const AcTable& ac_table, int& dc, int16_t* block);

}  // namespace dtrain::data
