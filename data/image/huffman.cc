// ITU T.81, annexes C and F. Here a loader of photographs spends most of its time.
#include "data/image/huffman.h"

namespace dtrain::data {
namespace {

std::array<uint8_t, 64> MakeZigzag() {
  std::array<uint8_t, 64> order;
  int x = 0, y = 0;
  for (size_t k = 0; k < 64; ++k) {
    order[k] = static_cast<uint8_t>(8 * x + y);
    const bool up = (x + y) % 2 == 0;
    if (up ? x == 7 : y == 7) {
      (up ? y : x) += 1;
    } else if (up ? y == 0 : x == 0) {
      (up ? x : y) += 1;
    } else {
      x += up ? 1 : -1;
      y += up ? -1 : 1;
    }
  }
  return order;
}

constexpr int kLargestSize = 15;  // bits of a number; baseline files need 11, damaged ones may ask for more

// What a symbol of the AC alphabet means; for DC the high half is 0.
HuffmanTable::Entry Meaning(uint8_t symbol, int code_length) {
  HuffmanTable::Entry entry{.code_length = static_cast<uint8_t>(code_length)};
  entry.size = symbol & 15;
  entry.run = symbol >> 4;
  entry.length = static_cast<uint8_t>(code_length + entry.size);
  if (entry.size > 0 || entry.run == 15) return entry;  // 15, 0: sixteen zeros, the last of them as the number 0
  if (entry.run != 0) return {};                        // not baseline
  entry.run = HuffmanTable::kEndOfBlock;
  return entry;
}

// The number that follows a code, from bits that begin with the code. It is negative where its first bit is 0.
inline int NumberOf(uint64_t bits, const HuffmanTable::Entry& entry) {
  const uint64_t after = bits << entry.code_length;
  const auto number = static_cast<int>(after >> 1 >> (63 - entry.size));
  const auto negative = static_cast<int>(~(static_cast<int64_t>(after) >> 63));
  return number - (negative & ((1 << entry.size) - 1));
}

template <bool kStore>
inline int ReadAc(BitReader& reader, const HuffmanTable& table, int16_t* block) {
  int k = 1;
  while (k < 64) {
    reader.Refill();
    const uint64_t bits = reader.bits();
    const HuffmanTable::Entry entry = table.Find(bits);
    reader.Skip(entry.length);
    k += entry.run;
    if (k > 63) return entry.run == HuffmanTable::kEndOfBlock ? k - entry.run : 0;
    if (entry.code_length == 0) return 0;
    if (kStore) block[kZigzagByColumn[static_cast<size_t>(k)]] = static_cast<int16_t>(NumberOf(bits, entry));
    ++k;
  }
  return k;
}

}  // namespace

const std::array<uint8_t, 64> kZigzagByColumn = MakeZigzag();

bool HuffmanTable::Build(const HuffmanCodes& codes) {
  symbols_ = codes.symbols;
  entries_.fill({});
  uint32_t code = 0;
  int place = 0;
  for (int length = 1; length <= 16; ++length) {
    const auto bits = static_cast<size_t>(length);
    offset_[bits] = place - static_cast<int32_t>(code);
    for (int i = 0; i < codes.count[bits]; ++i, ++code, ++place) {
      if (code >> length != 0) return false;
      if (length > kBits) continue;
      const int spare = kBits - length;
      std::fill_n(entries_.begin() + (static_cast<ptrdiff_t>(code) << spare), size_t{1} << spare,
                  Meaning(symbols_[static_cast<size_t>(place)], length));
    }
    end_[bits] = code << (16 - length);
    code <<= 1;
  }
  return true;
}

HuffmanTable::Entry HuffmanTable::FindLong(uint32_t bits) const {
  for (size_t length = 1; length <= 16; ++length) {
    if (bits >= end_[length]) continue;
    const int32_t place = offset_[length] + static_cast<int32_t>(bits >> (16 - length));
    if (place < 0 || place > 255) return {};
    return Meaning(symbols_[static_cast<size_t>(place)], static_cast<int>(length));
  }
  return {};
}

BitReader BitReader::RefilledSlowly(BitReader reader) {
  const uint8_t*& at = reader.at_;
  while (reader.ready_ <= 56) {
    uint8_t byte = 0;
    if (at == reader.end_ || (*at == 0xFF && (at + 1 == reader.end_ || at[1] != 0))) {
      reader.invented_ += 8;  // a marker, or the end
    } else {
      byte = *at;
      at += byte == 0xFF ? 2 : 1;  // FF is followed by a stuffed 0
    }
    reader.bits_ |= uint64_t{byte} << (56 - reader.ready_);
    reader.ready_ += 8;
  }
  return reader;
}

bool BitReader::PassRestartMarker(int number) {
  const int left = ready_ - invented_;
  if (left < 0 || left >= 8 || end_ - at_ < 2 || at_[0] != 0xFF || at_[1] != 0xD0 + number) return false;
  at_ += 2;
  bits_ = 0;
  ready_ = invented_ = 0;
  return true;
}

bool BitReader::SkipToRestartMarker(int number) {
  while (at_ < end_) {
    at_ = static_cast<const uint8_t*>(std::memchr(at_, 0xFF, static_cast<size_t>(end_ - at_)));
    if (at_ == nullptr || end_ - at_ < 2) {
      at_ = end_;
      return false;
    }
    if (at_[1] != 0) break;
    at_ += 2;
  }
  bits_ = 0;
  ready_ = invented_ = 0;
  return PassRestartMarker(number);
}

int ReadBlock(BitReader& reader, const HuffmanTable& dc_table, const HuffmanTable& ac_table, int& dc, int16_t* block) {
  BitReader own = reader;  // in registers
  own.Refill();
  const HuffmanTable::Entry entry = dc_table.Find(own.bits());
  const bool no_change = entry.run == HuffmanTable::kEndOfBlock;
  if (entry.code_length == 0 || entry.size > kLargestSize || (entry.run != 0 && !no_change)) return 0;
  dc += NumberOf(own.bits(), entry);
  own.Skip(entry.length);
  if (dc < INT16_MIN || dc > INT16_MAX) return 0;
  int used = 0;
  if (block == nullptr) {
    used = ReadAc<false>(own, ac_table, nullptr);
  } else {
    block[0] = static_cast<int16_t>(dc);
    used = ReadAc<true>(own, ac_table, block);
  }
  reader = own;
  return used;
}

}  // namespace dtrain::data
