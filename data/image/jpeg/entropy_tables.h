// The Huffman tables of an image, kept for the next one because most files of a data set have the same tables.
#pragma once

#include <array>
#include <cstdint>

#include "data/image/jpeg/baseline_header.h"
#include "data/image/jpeg/huffman.h"

namespace dtrain::data {

class EntropyTables {
 public:
  // Builds the tables of `header`, unless the kept ones are equal. Returns false if they are no valid Huffman codes.
  // `header` must outlive the calls of Read and SkipUnit.
  bool Use(const BaselineHeader& header);

  // Calls ReadBlock (huffman.h) with the tables of component `i`.
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

}  // namespace dtrain::data
