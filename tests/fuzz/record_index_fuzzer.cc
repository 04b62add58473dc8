// The index file of record files and of an ImageFolder. If the first byte is odd, the CRC is appended, because no
// mutation produces a correct one.
#include "data/formats/record_index.h"

#include "data/formats/crc32c.h"
#include "data/formats/image_folder.h"
#include "data/formats/little_endian.h"
#include "data/formats/packed_records.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace dtrain;

void UseSource(const data::RecordSource& source) {
  for (int64_t i = 0; i < source.size(); ++i) {
    source.Location(i);
    fuzz::Require(source.Label(i) >= -1 && source.Label(i) < source.num_classes(), "a label is no class");
    std::vector<float> targets(static_cast<size_t>(source.num_targets()));
    try {
      source.Targets(i, targets);
    } catch (const DataError&) {
      continue;
    }
  }
}

void UseIndex(const data::RecordIndex& index) {
  const data::RecordFormat* const format = data::FindRecordFormat(index.format.substr(0, index.format.find('.')));
  data::LabelKind kind = data::LabelKind::kClass;
  for (const data::LabelKind other : {data::LabelKind::kSeveral, data::LabelKind::kNumbers}) {
    if (index.format.ends_with("." + std::string(data::FactsOf(other).name))) kind = other;
  }
  if (index.format == "imagefolder") UseSource(data::ImageFolder("folder", index));
  if (format == nullptr) return;
  try {
    UseSource(data::PackedRecords(*format, "folder", index, std::nullopt, {}, kind));
  } catch (const DataError&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const bool add_crc = input.TakeByte() % 2 == 1;
  std::string bytes(input.text());
  if (add_crc) data::AppendLittleEndian(data::Crc32c(bytes.data(), bytes.size()), bytes);
  const auto index = data::ParseIndex(bytes);
  if (!index) return 0;
  fuzz::Require(data::ParseIndex(data::SerializeIndex(*index)) == index, "what is written is not what is read");
  UseIndex(*index);
  return 0;
}
