#include "data/text/unicode_classes.h"

#include <algorithm>
#include <memory>

namespace dtrain::data {
namespace {

struct Range {
  uint32_t first, last;
  CharacterClass kind;
};

constexpr Range kRanges[] = {
#include "data/text/unicode_classes.inc"
};

using Table = std::array<CharacterClass, kCodePoints>;

std::unique_ptr<const Table> MakeTable() {
  auto table = std::make_unique<Table>();
  table->fill(CharacterClass::kOther);
  for (const Range& range : kRanges) {
    std::fill(table->begin() + range.first, table->begin() + range.last + 1, range.kind);
  }
  return table;
}

}  // namespace

const Table& CharacterClasses() {
  static const std::unique_ptr<const Table> table = MakeTable();
  return *table;
}

}  // namespace dtrain::data
