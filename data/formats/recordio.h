// MXNet's record files (.rec). A record is a magic number, 3 bits of continuation and 29 of length, the data, and
// padding to 4 bytes; the data is an IRHeader (flag, label, id, id2), then `flag` labels of 4 bytes, then the image. If
// the data holds the magic number at a multiple of 4, the writer omits it and splits the record there, so that a magic
// number in the file always begins a frame.
#pragma once

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "data/formats/record_format.h"
#include "data/formats/record_index.h"

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
};

// Returns an image with its IRHeader and frame, split into several parts if its data holds the magic number.
std::string FrameRecordIo(std::span<const uint8_t> image, int64_t label, uint64_t id);

// MXNet's .idx beside a .rec: one "KEY<tab>OFFSET" per line. It only helps to find records in damaged files:
// dtrain's
// own index is made from the records themselves, so a missing or outdated .idx does no harm. Returns where the records
// of `rec_path` (FILE.rec) begin according to FILE.idx, in file order and without labels. Empty if there is no FILE.idx
// or it does not fit a file of `rec_bytes` bytes. Throws nothing: a FILE.idx that cannot be read is ignored.
std::vector<IndexEntry> ReadRecordIoIndex(const std::string& rec_path, uint64_t rec_bytes);

// The same, from the text of an .idx.
std::vector<IndexEntry> ParseRecordIoIndex(std::istream& text, uint64_t rec_bytes);

}  // namespace dtrain::data
