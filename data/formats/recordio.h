// MXNet's record files (.rec): magic, 3 bits of continuation and 29 of length, data, padding to 4 bytes; the data is an
// IRHeader (flag, label, id, id2), then `flag` labels of 4 bytes, then the image. Where the data holds the magic at a
// multiple of 4, the writer leaves it out and splits the record there, so that a magic in the file is always a header.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

// Of a label array the first label counts. The format has no checksums: a label that is no class is taken for damage.
class RecordIoFormat : public RecordFormat {
 public:
  std::string name() const override { return "recordio"; }
  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override;
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const override;
  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override;
};

// An image with its IRHeader and frame: in several parts where it has to be.
std::string FrameRecordIo(std::span<const uint8_t> image, int64_t label, uint64_t id);

}  // namespace dtrain::data
