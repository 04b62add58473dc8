// The files of records, and what is in them.
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "data/error.h"
#include "data/formats/crc32c.h"
#include "data/formats/image_folder.h"
#include "data/formats/little_endian.h"
#include "data/formats/packed_records.h"
#include "data/formats/record_index.h"
#include "data/formats/tar.h"
#include "data/formats/tfrecord.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain::fuzz {
namespace {

// Indexes bytes as a record file and reads every record, as training does. Requires that the entries lie in the file,
// in order and without overlaps. If nothing of the file is `known`, a record that was found intact must also be
// readable.
void ScanEverything(const data::RecordFormat& format, std::span<const uint8_t> file,
                    std::span<const data::IndexEntry> known = {}, data::LabelKind kind = data::LabelKind::kClass) {
  for (const data::LabelKind other : {data::LabelKind::kSeveral, data::LabelKind::kNumbers}) {
    if (kind == data::LabelKind::kClass && format.Holds(other)) ScanEverything(format, file, known, other);
  }
  const data::MemoryBytes bytes(file);
  std::vector<data::IndexEntry> entries;
  std::vector<float> values;
  try {
    entries = data::ScanRecords(format, bytes, "input", known, kind, &values);
  } catch (const DataError&) {
    return;
  }
  uint64_t end = 0;
  for (const data::IndexEntry& entry : entries) {
    Require(entry.offset >= end && entry.offset <= file.size() && entry.bytes <= file.size() - entry.offset,
            "an index entry overlaps or leaves the file");
    end = entry.offset + entry.bytes;
    const auto record = file.subspan(entry.offset, entry.bytes);
    bool is_read = true;
    try {
      format.Image({record.begin(), record.end()});
    } catch (const DataError&) {
      is_read = false;
    }
    Require(is_read || entry.label < 0 || !known.empty(), "a record that was found intact cannot be read");
  }
}

// A RecordIO file with its .idx: two bytes with the length of the .idx, the .idx, the .rec.
FUZZ_TARGET(recordio) {
  FuzzInput input(whole);
  const auto offsets = input.Take(input.TakeShort());
  const data::RecordFormat& format = *data::FindRecordFormat("recordio");
  ScanEverything(format, input.rest(), format.KnownRecords(data::AsText(offsets), input.rest().size()));
}

// A TFRecord file. If the first byte is even, the rest is the file. If it is odd, pieces with a length of two bytes
// each are put into valid frames, because no mutation produces a correct CRC.
FUZZ_TARGET(tfrecord) {
  const data::RecordFormat& format = *data::FindRecordFormat("tfrecord");
  FuzzInput input(whole);
  if (input.TakeByte() % 2 == 0) {
    ScanEverything(format, input.rest());
    return;
  }
  std::string file;
  while (!input.empty()) {
    const auto piece = input.Take(input.TakeShort());
    file += data::FrameTfRecord(data::AsText(piece));
  }
  ScanEverything(format, data::AsBytes(file));
}

// The protobuf inside a TFRecord.
FUZZ_TARGET(tf_example) {
  try {
    const data::ImageExample example = data::ParseImageExample(whole);
    if (example.image && !example.image->empty()) {
      const uint8_t* const begin = example.image->data();
      Require(begin >= whole.data() && begin + example.image->size() <= whole.data() + whole.size(),
              "the image lies outside the input");
    }
    if (!example.image || !example.label) return;
    const data::PackedImage image{
        .bytes = *example.image, .label = *example.label, .class_name = "class", .file_name = "file"};
    const std::string written = data::MakeImageExample(image, 0);
    const auto again = data::ParseImageExample({reinterpret_cast<const uint8_t*>(written.data()), written.size()});
    Require(again.label == example.label && again.image && again.image->size() == image.bytes.size(),
            "what is written is not what is read");
  } catch (const DataError&) {
    return;
  }
}

constexpr size_t kChecksumAt = 148, kMagicAt = 257;

void FixChecksums(std::vector<uint8_t>& archive) {
  for (size_t at = 0; at + data::kTarBlock <= archive.size(); at += data::kTarBlock) {
    uint8_t* const block = &archive[at];
    if (std::memcmp(block + kMagicAt, "ustar", 5) != 0) continue;
    std::memset(block + kChecksumAt, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < data::kTarBlock; ++i) sum += block[i];
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::memcpy(block + kChecksumAt, text, 7);
  }
}

// A tar of samples. If the first byte is odd, the headers' checksums are corrected first, because mutations break them.
FUZZ_TARGET(webdataset) {
  FuzzInput input(whole);
  const bool fix = input.TakeByte() % 2 == 1;
  std::vector<uint8_t> archive(input.rest().begin(), input.rest().end());
  if (fix) FixChecksums(archive);
  ScanEverything(*data::FindRecordFormat("webdataset"), archive);
}

void UseSource(const data::RecordSource& source) {
  for (int64_t i = 0; i < source.size(); ++i) {
    source.Location(i);
    Require(source.Label(i) >= -1 && source.Label(i) < source.num_classes(), "a label is no class");
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

// The index file of record files and of an ImageFolder. If the first byte is odd, the CRC is appended, because no
// mutation produces a correct one.
FUZZ_TARGET(record_index) {
  FuzzInput input(whole);
  const bool add_crc = input.TakeByte() % 2 == 1;
  std::string bytes(input.text());
  if (add_crc) data::AppendLittleEndian(data::Crc32c(bytes.data(), bytes.size()), bytes);
  const auto index = data::ParseIndex(bytes);
  if (!index) return;
  Require(data::ParseIndex(data::SerializeIndex(*index)) == index, "what is written is not what is read");
  UseIndex(*index);
}

}  // namespace
}  // namespace dtrain::fuzz
