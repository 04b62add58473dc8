// https://protobuf.dev/programming-guides/encoding and tensorflow/core/example/{example,feature}.proto:
//   Example { Features features = 1; }   Features { map<string, Feature> feature = 1; }
//   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//   BytesList { repeated bytes value = 1; }   Int64List { repeated int64 value = 1 [packed = true]; }
#include "data/formats/tf_example.h"

#include "data/error.h"
#include "data/formats/protobuf_writer.h"

namespace dtrain::data {
namespace {

using Bytes = std::span<const uint8_t>;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

// Iterates over the fields of one message and never reads beyond its bytes. Throws DataError if they are malformed.
class MessageReader {
 public:
  explicit MessageReader(Bytes bytes) : rest_(bytes) {}

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
    } else if (type_ == kFixed64 || type_ == kFixed32) {
      Take(type_ == kFixed64 ? 8 : 4);
    } else {
      throw DataError("not a tf.Example: wire type " + std::to_string(type_));
    }
    return true;
  }

  bool IsBytes(uint64_t field) const { return field_ == field && type_ == kLengthDelimited; }
  bool IsVarint(uint64_t field) const { return field_ == field && type_ == kVarint; }
  Bytes bytes() const { return bytes_; }
  uint64_t varint() const { return varint_; }

  // Moves to the next number of a packed list, whose bytes are varints only; returns false at the end.
  bool NextPacked() {
    if (rest_.empty()) return false;
    varint_ = TakeVarint();
    return true;
  }

 private:
  uint64_t TakeVarint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Take(1)[0];
      value |= uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    throw DataError("not a tf.Example: a number of more than ten bytes");
  }

  Bytes Take(uint64_t size) {
    if (size > rest_.size()) {
      throw DataError("not a tf.Example: a field of " + std::to_string(size) + " bytes where " +
                      std::to_string(rest_.size()) + " are left");
    }
    const Bytes taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  Bytes rest_, bytes_;
  uint64_t field_ = 0, varint_ = 0;
  uint32_t type_ = 0;
};

// Returns the first value of a Feature's bytes_list.
std::optional<Bytes> FirstBytes(Bytes feature) {
  for (MessageReader list(feature); list.Next();) {
    if (!list.IsBytes(1)) continue;
    for (MessageReader values(list.bytes()); values.Next();) {
      if (values.IsBytes(1)) return values.bytes();
    }
  }
  return std::nullopt;
}

// Returns the first value of a Feature's int64_list, packed or not.
std::optional<int64_t> FirstInteger(Bytes feature) {
  for (MessageReader list(feature); list.Next();) {
    if (!list.IsBytes(3)) continue;
    for (MessageReader values(list.bytes()); values.Next();) {
      if (values.IsVarint(1)) return static_cast<int64_t>(values.varint());
      if (!values.IsBytes(1)) continue;
      MessageReader packed(values.bytes());
      if (packed.NextPacked()) return static_cast<int64_t>(packed.varint());
    }
  }
  return std::nullopt;
}

void ParseFeature(Bytes entry, ImageExample& example) {
  std::string_view name;
  Bytes feature;
  for (MessageReader reader(entry); reader.Next();) {
    if (reader.IsBytes(1)) name = {reinterpret_cast<const char*>(reader.bytes().data()), reader.bytes().size()};
    if (reader.IsBytes(2)) feature = reader.bytes();
  }
  example.features.emplace_back(name);
  if (name == "image/encoded") example.image = FirstBytes(feature);
  if (name == "image/class/label") example.label = FirstInteger(feature);
}

// ---- Writing ----

// Appends a Feature whose list of values is its field `kind`.
void AddFeature(std::string_view name, int kind, const ProtobufWriter& values, ProtobufWriter& features) {
  const ProtobufWriter feature = ProtobufWriter().Message(kind, values);
  features.Message(1, ProtobufWriter().Bytes(1, name).Message(2, feature));
}

void AddBytes(std::string_view name, std::string_view value, ProtobufWriter& features) {
  AddFeature(name, 1, ProtobufWriter().Bytes(1, value), features);
}

}  // namespace

ImageExample ParseImageExample(Bytes bytes) {
  ImageExample example;
  for (MessageReader message(bytes); message.Next();) {
    if (!message.IsBytes(1)) continue;
    for (MessageReader features(message.bytes()); features.Next();) {
      if (features.IsBytes(1)) ParseFeature(features.bytes(), example);
    }
  }
  return example;
}

std::string MakeImageExample(std::string_view image, int64_t label, const std::string& class_name,
                             const std::string& file_name) {
  ProtobufWriter features;
  AddFeature("image/class/label", 3, ProtobufWriter().PackedVarint(1, static_cast<uint64_t>(label)), features);
  if (!class_name.empty()) AddBytes("image/class/text", class_name, features);
  if (!file_name.empty()) AddBytes("image/filename", file_name, features);
  AddBytes("image/encoded", image, features);
  return ProtobufWriter().Message(1, features).bytes();
}

}  // namespace dtrain::data
