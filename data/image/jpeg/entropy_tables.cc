#include "data/image/jpeg/entropy_tables.h"

namespace dtrain::data {

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
