// TensorFlow's record files. A record is a uint64 length, the masked CRC-32C of the length, the data, and the masked
// CRC-32C of the data. The data is a tf.Example with `image/encoded` and `image/class/label`, as written by
// TensorFlow's ImageNet scripts. It is read with a small protobuf reader: libprotobuf would be a large dependency for
// three messages, and would allocate whatever size a hostile length gives.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/little_endian.h"
#include "data/formats/record_format.h"

namespace dtrain::data {

// Writes the wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding), as far as a few
// messages need it. Protobuf's own library cannot be used, because LibTorch contains another version of it.
// One message, to which fields are appended. Field numbers are those of the .proto file.
class ProtobufWriter {
 public:
  // For int32, int64, bool and enum. Negative values take ten bytes.
  ProtobufWriter& Varint(int field, uint64_t value) {
    AppendKey(field, 0);
    AppendVarint(value);
    return *this;
  }
  ProtobufWriter& Double(int field, double value) {
    AppendKey(field, 1);
    AppendLittleEndian(std::bit_cast<uint64_t>(value), bytes_);
    return *this;
  }
  ProtobufWriter& Float(int field, float value) {
    AppendKey(field, 5);
    AppendLittleEndian(std::bit_cast<uint32_t>(value), bytes_);
    return *this;
  }
  // For string and bytes.
  ProtobufWriter& Bytes(int field, std::string_view value) {
    AppendKey(field, 2);
    AppendVarint(value.size());
    bytes_ += value;
    return *this;
  }
  // A repeated field.
  ProtobufWriter& PackedVarints(int field, std::span<const uint64_t> values) {
    ProtobufWriter packed;
    for (const uint64_t value : values) packed.AppendVarint(value);
    return Message(field, packed);
  }
  ProtobufWriter& PackedFloats(int field, std::span<const float> values) {
    ProtobufWriter packed;
    for (const float value : values) AppendLittleEndian(std::bit_cast<uint32_t>(value), packed.bytes_);
    return Message(field, packed);
  }
  ProtobufWriter& Message(int field, const ProtobufWriter& message) { return Bytes(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void AppendKey(int field, uint64_t wire_type) { AppendVarint(static_cast<uint64_t>(field) << 3 | wire_type); }
  void AppendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

class TfRecordFormat : public RecordFormat {
 public:
  std::string name() const override { return "tfrecord"; }
  std::string description() const override { return "TensorFlow's record files with an Example for each image"; }
  std::vector<std::string> extensions() const override { return {".tfrecord", ".tfrecords"}; }
  bool is_numbered() const override { return true; }
  bool Holds(LabelKind /*kind*/) const override { return true; }
  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override;
  // Finds 12 bytes whose CRC fits the length, followed by data that fits its CRC.
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const override;
  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override;

  int64_t first_label() const override { return 1; }  // as in TensorFlow's ImageNet scripts
  std::string FileName(const std::string& split, int64_t number, int64_t count) const override {
    return split + "-" + WithZeros(number, 5) + "-of-" + WithZeros(count, 5);
  }
  std::string Frame(const PackedImage& image) const override;
};

// Returns the data with its lengths and CRCs, as one record.
std::string FrameTfRecord(std::string_view data);

constexpr size_t kTfRecordFrameBytes = 16;  // bytes of a record besides its data

// Returns the data of the record at the front of `bytes`; empty if no complete and intact record is there.
std::optional<std::string_view> UnframeTfRecord(std::string_view bytes);

struct ImageExample {
  std::optional<std::span<const uint8_t>> image;  // image/encoded; points into the parsed bytes
  std::optional<int64_t> label;                   // image/class/label, as stored; the first of several
  std::optional<std::vector<double>> values;      // all integers or floats of image/class/label; empty without it
  std::vector<std::string> features;              // all names, in file order
};

// Throws DataError if the bytes are not a tf.Example. Allocates memory only for the names and the values.
ImageExample ParseImageExample(std::span<const uint8_t> bytes);

// Returns a tf.Example with image/encoded and image/class/label, `first_label` added to its classes, and, unless empty,
// image/class/text and image/filename.
std::string MakeImageExample(const PackedImage& image, int64_t first_label);

}  // namespace dtrain::data
