// The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding), as far as a few messages need
// it. Protobuf's own library cannot be used, because LibTorch contains another version of it; and it would allocate
// whatever size a hostile length gives.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/error.h"
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

// Iterates over the fields of one message and never reads beyond its bytes.
class ProtobufReader {
 public:
  using Bytes = std::span<const uint8_t>;

  // The methods throw DataError, which begins with `what` and has the hint, if the bytes are malformed.
  ProtobufReader(Bytes bytes, const char* what, const char* hint = "") : rest_(bytes), what_(what), hint_(hint) {}

  // A reader of the message in the current field.
  ProtobufReader Inner() const { return ProtobufReader(bytes_, what_, hint_); }

  // Moves to the next field; returns false at the end.
  bool Next() {
    if (rest_.empty()) return false;
    const uint64_t key = TakeVarint();
    field_ = key >> 3;
    type_ = static_cast<uint32_t>(key & 7);
    if (type_ == kVarint) {
      varint_ = TakeVarint();
    } else if (type_ == kLengthDelimited) {
      bytes_ = Take(TakeVarint());
    } else if (type_ == kFixed64) {
      Take(sizeof(uint64_t));
    } else if (type_ == kFixed32) {
      TakeFloat();
    } else {
      Fail("wire type " + std::to_string(type_));
    }
    return true;
  }

  bool IsBytes(uint64_t field) const { return field_ == field && type_ == kLengthDelimited; }
  bool IsVarint(uint64_t field) const { return field_ == field && type_ == kVarint; }
  bool IsFloat(uint64_t field) const { return field_ == field && type_ == kFixed32; }
  Bytes bytes() const { return bytes_; }
  uint64_t varint() const { return varint_; }
  float number() const { return number_; }

  // Moves to the next number of a packed list, whose bytes are varints only, or floats; returns false at the end.
  bool NextPacked(bool are_floats) {
    if (rest_.empty()) return false;
    if (are_floats) {
      TakeFloat();
    } else {
      varint_ = TakeVarint();
    }
    return true;
  }

 private:
  enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  [[noreturn]] void Fail(const std::string& why) const { throw DataError(std::string(what_) + ": " + why, hint_); }

  uint64_t TakeVarint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Take(1)[0];
      value |= uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    Fail("a number of more than ten bytes");
  }

  void TakeFloat() { number_ = LoadLittleEndian<float>(Take(sizeof(float)).data()); }

  Bytes Take(uint64_t size) {
    if (size > rest_.size()) {
      Fail("a field of " + std::to_string(size) + " bytes where " + std::to_string(rest_.size()) + " are left");
    }
    const Bytes taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  Bytes rest_, bytes_;
  const char *what_, *hint_;
  uint64_t field_ = 0, varint_ = 0;
  uint32_t type_ = 0;
  float number_ = 0;
};

}  // namespace dtrain::data
