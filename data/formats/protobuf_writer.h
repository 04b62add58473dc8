// Writes the wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding), as far as a few
// messages need it. Protobuf's own library cannot be used, because LibTorch contains another version of it.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/formats/little_endian.h"

namespace dtrain::data {

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
  // A repeated field with one number.
  ProtobufWriter& PackedVarint(int field, uint64_t value) {
    ProtobufWriter packed;
    packed.AppendVarint(value);
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

}  // namespace dtrain::data
