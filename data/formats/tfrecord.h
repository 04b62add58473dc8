// TensorFlow's record files: uint64 length, masked CRC-32C of it, the data, masked CRC-32C of that; the data is a
// tf.Example with `image/encoded` and `image/class/label`, as TensorFlow's ImageNet scripts write them.
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
  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override;
  // A record's own length is protected by a CRC of its own: 12 bytes that fit and data that fits its CRC are a record.
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const override;
  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override;
};

// One record with its frame.
std::string FrameTfRecord(std::string_view data);

constexpr size_t kTfRecordFrameBytes = 16;

// The other way: the data of the record that `bytes` begin with; nullopt where no whole and intact one does.
std::optional<std::string_view> UnframeTfRecord(std::string_view bytes);

}  // namespace dtrain::data
