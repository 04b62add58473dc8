// The blocks of a baseline JPEG: from bits and Huffman codes to coefficients (huffman.cc), and from these to pixels
// (idct.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "data/image/jpeg/baseline_header.h"

// DTRAIN_WITH_AVX2 before a function compiles it twice, with and without AVX2; the loader picks one for the processor.
// It is for functions whose results do not depend on the width of vectors.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define DTRAIN_WITH_AVX2  // ifunc resolvers run before a sanitizer is ready
#endif

namespace dtrain::data {

// Decodes Huffman codes. Codes of up to kBits bits are looked up, longer ones are searched for.
class HuffmanTable {
 public:
  static constexpr int kBits = 10;
  static constexpr int kEndOfBlock = 64;  // a run that leads beyond the block from anywhere in it

  // A code and its meaning: `run` zeros, then a number of `size` bits. If the size is 0, the number is 0.
  struct Entry {
    uint8_t code_length = 0;  // bits; 0: no such code
    uint8_t length = 0;       // bits of the code and the number
    uint8_t run = 0;
    uint8_t size = 0;
  };

  // Returns false if there are more codes than fit into their lengths.
  bool Build(const HuffmanCodes& codes);

  // Returns the code with which `bits` begins. At least the 16 highest bits must be valid.
  Entry Find(uint64_t bits) const {
    const Entry entry = entries_[bits >> (64 - kBits)];
    return __builtin_expect(entry.code_length > 0, 1) ? entry : FindLong(static_cast<uint32_t>(bits >> 48));
  }

  // Finds codes of up to kBits bits only.
  Entry FindShort(uint64_t bits) const { return entries_[bits >> (64 - kBits)]; }

 private:
  Entry FindLong(uint32_t bits) const;

  std::array<Entry, 1 << kBits> entries_;
  std::array<uint32_t, 17> end_{};    // [n]: the first 16-bit pattern after all codes of up to n bits
  std::array<int32_t, 17> offset_{};  // [n]: index of the first symbol of n bits, minus its code
  std::array<uint8_t, 256> symbols_{};
};

// Decodes the codes of AC coefficients two at a time: in a photograph, a code and its number take six bits on average.
class AcTable {
 public:
  static constexpr int kBits = 11;

  // One or two coefficients, one coefficient and the end of the block, or the end alone. The advance of a coefficient
  // is its zeros plus one, that of the end of the block is kEndOfBlock, and that of a missing second coefficient is 0.
  struct Pair {
    uint8_t length = 0;             // bits of everything in this pair
    uint8_t first_code_length = 0;  // the first number is not in the table, because it may have too many bits
    uint8_t first_size = 0;
    uint8_t first_advance = 2 * kEndOfBlock;  // by default: a code that is too long for this table
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

// Reads the bits of bytes that contain no markers and no stuffed zeros.
class BitReader {
 public:
  static constexpr size_t kPadding = 512;  // bytes after the end that must be readable, whatever they are

  BitReader() = default;
  BitReader(std::span<const uint8_t> bytes, int first_bit)
      : begin_(bytes.data()), at_(begin_), bits_in_all_(8 * static_cast<ptrdiff_t>(bytes.size())) {
    Refill();
    Skip(first_bit);
  }

  // Makes 56 bits available without a branch. The load need not wait until the last code's length has been looked up.
  [[gnu::always_inline]] void Refill() {
    uint64_t word = 0;
    std::memcpy(&word, at_, 8);
    bits_ |= __builtin_bswap64(word) >> ready_;
    at_ += (63 - ready_) >> 3;
    ready_ |= 56;
  }
  // Returns the next bits, beginning with the highest. Call Refill before.
  uint64_t bits() const { return bits_; }
  void Skip(int count) {
    bits_ <<= count;
    ready_ -= count;
  }

  // Returns the number of bits left, or a negative number if too many were taken. A block takes fewer than the padding
  // has.
  ptrdiff_t left() const { return bits_in_all_ - 8 * (at_ - begin_) + ready_; }

 private:
  const uint8_t* begin_ = nullptr;
  const uint8_t* at_ = nullptr;
  ptrdiff_t bits_in_all_ = 0;
  uint64_t bits_ = 0;  // the next bits, beginning with the highest
  int ready_ = 0;      // how many of bits_ are certainly valid
};

// [k]: the position of the k-th coefficient of the zigzag, column by column: x·8 + y.
extern const std::array<uint8_t, 64> kZigzagByColumn;

// Reads a block. `block` holds 64 zeros and receives the quantised coefficients by column; if it is null, they are
// skipped. `dc` holds the component's last DC value and receives this block's. Returns the number of zigzag positions
// in use, 1 to 64, or 0 if the data are damaged.
int ReadBlock(BitReader& reader, const HuffmanTable& dc_table, const AcTable& ac_table, int& dc, int16_t* block);

// The tables of an image, kept for the next one because most files of a data set have the same tables.
class EntropyTables {
 public:
  // Builds the tables of `header`, unless the kept ones are equal. Returns false if they are no valid Huffman codes.
  // `header` must outlive the calls of Read and SkipUnit.
  bool Use(const BaselineHeader& header);

  // Calls ReadBlock with the tables of component `i`.
  int Read(BitReader& reader, int i, std::array<int, 3>& last_dc, int16_t* block) const {
    const JpegComponent& component = header_->component[static_cast<size_t>(i)];
    return ReadBlock(reader, dc_[static_cast<size_t>(component.dc)].table, ac_[static_cast<size_t>(component.ac)].table,
                     last_dc[static_cast<size_t>(i)], block);
  }

  // Skips the blocks of a unit (MCU). Returns false if the data are damaged.
  bool SkipUnit(BitReader& reader, std::array<int, 3>& last_dc) const;

 private:
  template <typename Table>
  struct Kept {
    HuffmanCodes codes;
    bool valid = false;
    Table table;
  };
  template <typename Table>
  static bool Keep(Kept<Table>& kept, const HuffmanCodes& codes);

  const BaselineHeader* header_ = nullptr;
  std::array<Kept<HuffmanTable>, 4> dc_;
  std::array<Kept<AcTable>, 4> ac_;
};

// ---- The inverse discrete cosine transform of a block of 8×8 ----
//
// In single precision: exact to about 1e-4 of a grey level, and the same bits on every machine (no reordering, no fused
// multiply-add).

// The factors of the coefficients, column by column (x·8 + y).
using IdctScales = std::array<float, 64>;

// Makes the factors from a quantisation table in zigzag order.
IdctScales MakeIdctScales(const std::array<uint16_t, 64>& quantisation);

// Transforms `coefficients` (by column) and sets them to zero for the next block. Writes column x of the block, eight
// pixels from top to bottom, to pixels + x·stride.
void InverseDct(int16_t* coefficients, const IdctScales& scales, uint8_t* pixels, ptrdiff_t stride);

// InverseDct for a block in which only the first coefficient is not zero.
void InverseDctOfDc(int16_t* coefficients, const IdctScales& scales, uint8_t* pixels, ptrdiff_t stride);

}  // namespace dtrain::data
