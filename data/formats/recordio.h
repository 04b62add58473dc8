// MXNet's record files (.rec). A record is a magic number, 3 bits of continuation and 29 of length, the data, and
// padding to 4 bytes; the data is an IRHeader (flag, label, id, id2), then `flag` labels of 4 bytes, then the image. If
// the data holds the magic number at a multiple of 4, the writer omits it and splits the record there, so that a magic
// number in the file always begins a frame.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

// Takes the first label of a label array. The format has no checksums, so a label that is not a class counts as damage.
class RecordIoFormat : public RecordFormat {
 public:
  std::string name() const override { return "recordio"; }
  std::string description() const override { return "MXNet's record files"; }
  std::vector<std::string> extensions() const override { return {".rec"}; }
  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override;
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const override;
  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override;
  std::vector<IndexEntry> KnownRecords(const std::string& path, uint64_t bytes) const override;  // MXNet's .idx

  // Splits a record into several parts if its data holds the magic number.
  std::string Frame(const PackedImage& image) const override;
  std::optional<SideFile> MakeIndex(const std::string& path, std::span<const PlacedRecord> records) const override;
};

// Parses MXNet's .idx beside a .rec of `rec_bytes` bytes: one "KEY<tab>OFFSET" per line.
std::vector<IndexEntry> ParseRecordIoIndex(std::istream& text, uint64_t rec_bytes);

}  // namespace dtrain::data
