// TensorFlow's record files. A record is a uint64 length, the masked CRC-32C of the length, the data, and the masked
// CRC-32C of the data. The data is a tf.Example with `image/encoded` and `image/class/label`, as written by
// TensorFlow's ImageNet scripts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

class TfRecordFormat : public RecordFormat {
 public:
  std::string name() const override { return "tfrecord"; }
  std::string description() const override { return "TensorFlow's record files with an Example for each image"; }
  std::vector<std::string> extensions() const override { return {".tfrecord", ".tfrecords"}; }
  bool is_numbered() const override { return true; }
  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override;
  // Finds 12 bytes whose CRC fits the length, followed by data that fits its CRC.
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const override;
  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override;
};

// Returns the data with its lengths and CRCs, as one record.
std::string FrameTfRecord(std::string_view data);

constexpr size_t kTfRecordFrameBytes = 16;  // bytes of a record besides its data

// Returns the data of the record at the front of `bytes`; empty if no complete and intact record is there.
std::optional<std::string_view> UnframeTfRecord(std::string_view bytes);

}  // namespace dtrain::data
