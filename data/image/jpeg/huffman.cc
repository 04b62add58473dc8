// ITU T.81, annexes C and F. A loader of photographs spends most of its time in this file.
#include "data/image/jpeg/blocks.h"

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

// The most bits of a number: more than 8-bit images need, and few enough that one Refill lasts for two pairs.
constexpr int kLargestDcSize = 15, kLargestAcSize = 14;

// Returns the meaning of an AC symbol. It serves for DC symbols, too, whose high half (the run) is 0.
HuffmanTable::Entry Meaning(uint8_t symbol, int code_length) {
  HuffmanTable::Entry entry{.code_length = static_cast<uint8_t>(code_length)};
  entry.size = symbol & 15;
  entry.run = symbol >> 4;
  entry.length = static_cast<uint8_t>(code_length + entry.size);
  if (entry.size > 0 || entry.run == 15) return entry;  // (15, 0) is sixteen zeros: a run of 15 and the number 0
  if (entry.run != 0) return {};                        // not baseline
  entry.run = HuffmanTable::kEndOfBlock;
  return entry;
}

// Returns the number that follows a code; `bits` begins with the code. The number is negative if its first bit is 0.
[[gnu::always_inline]] inline int16_t NumberOf(uint64_t bits, int code_length, int size) {
  const uint64_t after = bits << code_length;
  const auto number = static_cast<int>(after >> 1 >> (63 - size));
  const auto negative = static_cast<int>(~(static_cast<int64_t>(after) >> 63));
  return static_cast<int16_t>(number - (negative & ((1 << size) - 1)));
}

template <bool kStore>
[[gnu::always_inline]] inline int ReadAc(BitReader& reader, const AcTable& table, int16_t* block) {
  const auto store = [block](int k, int16_t value) {
    if (kStore) block[kZigzagByColumn[static_cast<size_t>(k)]] = value;
  };
  int k = 1;  // zigzag position of the next coefficient
  for (;;) {
    reader.Refill();  // enough for two pairs
    for (int i = 0; i < 2; ++i) {
      const AcTable::Pair pair = table.FindPair(reader.bits());
      const int second = k + pair.first_advance, next = second + pair.second_advance;
      const int16_t first = kStore ? NumberOf(reader.bits(), pair.first_code_length, pair.first_size) : int16_t{0};
      if (__builtin_expect(next < 64, 1)) {
        store(next - 1, pair.second);
        store(second - 1, first);  // stored last: overwrites the line above if there is no second
        reader.Skip(pair.length);
        k = next;
        continue;
      }
      if (pair.first_advance == AcTable::kEndOfBlock) {
        reader.Skip(pair.length);
        return k;
      }
      if (pair.second_advance == AcTable::kEndOfBlock && second < 64) {
        store(second - 1, first);
        reader.Skip(pair.length);
        return second;
      }
      const HuffmanTable::Entry one = table.FindOne(reader.bits());
      if (one.code_length == 0 || one.size > kLargestAcSize) return 0;
      const int16_t number = NumberOf(reader.bits(), one.code_length, one.size);
      reader.Skip(one.length);
      if (one.run == HuffmanTable::kEndOfBlock) return k;
      k += one.run;
      if (k > 63) return 0;
      store(k, number);
      if (++k == 64) return 64;
      break;
    }
  }
}

// Returns the pair for the first AcTable::kBits bits of `bits`.
AcTable::Pair MakePair(const HuffmanTable& table, uint64_t bits) {
  AcTable::Pair pair;
  const HuffmanTable::Entry first = table.Find(bits);
  if (first.code_length == 0 || first.code_length > AcTable::kBits || first.size > kLargestAcSize) return pair;
  pair.length = first.length;
  pair.first_code_length = first.code_length;
  pair.first_size = first.size;
  if (first.run == HuffmanTable::kEndOfBlock) {
    pair.first_advance = AcTable::kEndOfBlock;
    return pair;
  }
  pair.first_advance = static_cast<uint8_t>(first.run + 1);
  if (first.length >= AcTable::kBits) return pair;
  bits <<= first.length;
  const HuffmanTable::Entry second = table.FindShort(bits);
  if (second.code_length == 0 || first.length + second.length > AcTable::kBits) return pair;
  pair.length = static_cast<uint8_t>(first.length + second.length);
  if (second.run == HuffmanTable::kEndOfBlock) {
    pair.second_advance = AcTable::kEndOfBlock;
    return pair;
  }
  pair.second_advance = static_cast<uint8_t>(second.run + 1);
  pair.second = NumberOf(bits, second.code_length, second.size);
  return pair;
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

bool AcTable::Build(const HuffmanCodes& codes) {
  if (!one_.Build(codes)) return false;
  for (size_t i = 0; i < pairs_.size(); ++i) pairs_[i] = MakePair(one_, uint64_t{i} << (64 - kBits));
  return true;
}

int ReadBlock(BitReader& reader, const HuffmanTable& dc_table, const AcTable& ac_table, int& dc, int16_t* block) {
  BitReader own = reader;  // a copy that the compiler keeps in registers
  own.Refill();
  const HuffmanTable::Entry entry = dc_table.Find(own.bits());
  const bool no_change = entry.run == HuffmanTable::kEndOfBlock;
  if (entry.code_length == 0 || entry.size > kLargestDcSize || (entry.run != 0 && !no_change)) return 0;
  dc += NumberOf(own.bits(), entry.code_length, entry.size);
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
  return own.left() < 0 ? 0 : used;
}

template <typename Table>
bool EntropyTables::Keep(Kept<Table>& kept, const HuffmanCodes& codes) {
  if (!codes.defined || (kept.valid && kept.codes == codes)) return true;
  kept.codes = codes;
  kept.valid = kept.table.Build(codes);
  return kept.valid;
}

bool EntropyTables::Use(const BaselineHeader& header) {
  header_ = &header;
  for (size_t i = 0; i < 4; ++i) {
    if (!Keep(dc_[i], header.dc[i]) || !Keep(ac_[i], header.ac[i])) return false;
  }
  return true;
}

bool EntropyTables::SkipUnit(BitReader& reader, std::array<int, 3>& last_dc) const {
  for (int i = 0; i < header_->components; ++i) {
    const JpegComponent& component = header_->component[static_cast<size_t>(i)];
    for (int block = 0; block < component.across * component.down; ++block) {
      if (Read(reader, i, last_dc, nullptr) == 0) return false;
    }
  }
  return true;
}

}  // namespace dtrain::data
