// https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
//
// https://protobuf.dev/programming-guides/encoding and tensorflow/core/example/{example,feature}.proto:
//   Example { Features features = 1; }   Features { map<string, Feature> feature = 1; }
//   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//   BytesList { repeated bytes value = 1; }   Int64List { repeated int64 value = 1 [packed = true]; }
#include "data/formats/tfrecord.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/error.h"
#include "data/formats/crc32c.h"
#include "data/formats/little_endian.h"
#include "data/formats/protobuf.h"
#include "data/joined.h"

namespace dtrain::data {

namespace {

using Bytes = std::span<const uint8_t>;

ProtobufReader ExampleReader(Bytes message) { return ProtobufReader(message, "not a tf.Example"); }

// Returns the first value of a Feature's bytes_list.
std::optional<Bytes> FirstBytes(ProtobufReader list) {
  while (list.Next()) {
    if (!list.IsBytes(1)) continue;
    for (ProtobufReader values = list.Inner(); values.Next();) {
      if (values.IsBytes(1)) return values.bytes();
    }
  }
  return std::nullopt;
}

constexpr uint64_t kFloatList = 2, kInt64List = 3;  // fields of a Feature

// Returns the values of one of these lists, packed or not.
std::vector<double> NumbersOf(ProtobufReader list, uint64_t kind) {
  const bool are_floats = kind == kFloatList;
  std::vector<double> numbers;
  const auto add = [&](const ProtobufReader& reader) {
    numbers.push_back(are_floats ? reader.number() : static_cast<double>(static_cast<int64_t>(reader.varint())));
  };
  while (list.Next()) {
    if (!list.IsBytes(kind)) continue;
    for (ProtobufReader values = list.Inner(); values.Next();) {
      if (are_floats ? values.IsFloat(1) : values.IsVarint(1)) add(values);
      if (!values.IsBytes(1)) continue;
      for (ProtobufReader packed = values.Inner(); packed.NextPacked(are_floats);) add(packed);
    }
  }
  return numbers;
}

void ParseFeature(ProtobufReader entry, ImageExample& example) {
  std::string_view name;
  ProtobufReader feature = ExampleReader({});
  while (entry.Next()) {
    if (entry.IsBytes(1)) name = AsText(entry.bytes());
    if (entry.IsBytes(2)) feature = ExampleReader(entry.bytes());
  }
  example.features.emplace_back(name);
  if (name == "image/encoded") example.image = FirstBytes(feature);
  if (name != "image/class/label") return;
  constexpr double kMostExact = 9007199254740992;  // 2^53: beyond it a double is not that integer
  if (FirstBytes(feature)) {
    throw DataError("image/class/label of the tf.Example is text", "expected numbers: int64, or float for regression");
  }
  std::vector<double> classes = NumbersOf(feature, kInt64List), numbers = NumbersOf(feature, kFloatList);
  if (!classes.empty())
    example.label = std::abs(classes.front()) < kMostExact ? static_cast<int64_t>(classes.front()) : -1;
  example.values = std::move(numbers.empty() ? classes : numbers);
}

// ---- Writing ----

// Appends a Feature whose list of values is its field `kind`.
void AddFeature(std::string_view name, uint64_t kind, const ProtobufWriter& values, ProtobufWriter& features) {
  const ProtobufWriter feature = ProtobufWriter().Message(static_cast<int>(kind), values);
  features.Message(1, ProtobufWriter().Bytes(1, name).Message(2, feature));
}

void AddBytes(std::string_view name, std::string_view value, ProtobufWriter& features) {
  AddFeature(name, 1, ProtobufWriter().Bytes(1, value), features);
}

constexpr uint64_t kHeaderBytes = 12;  // the length and its CRC
constexpr uint64_t kTrailerBytes = 4;  // the CRC of the data

bool HasCrc(const uint8_t* header) { return MaskedCrc32c(header, 8) == LoadLittleEndian<uint32_t>(header + 8); }

// Returns the length of the data, given the header of a record of at most `available` bytes. Throws DamagedRecord.
uint64_t DataBytes(const uint8_t* header, uint64_t available) {
  const auto length = LoadLittleEndian<uint64_t>(header);
  if (!HasCrc(header)) throw DamagedRecord("the CRC of the record's length is wrong");
  if (length > kMostRecordBytes) throw DamagedRecord("a record of " + std::to_string(length) + " bytes");
  if (length > available - kHeaderBytes || available - kHeaderBytes - length < kTrailerBytes) {
    throw DamagedRecord("truncated: a record of " + std::to_string(length) + " bytes, of which " +
                        std::to_string(available - kHeaderBytes) + " are left");
  }
  return length;
}

// Returns the data of a complete record after checking its CRCs. Throws DamagedRecord.
std::span<const uint8_t> CheckedData(std::span<const uint8_t> record) {
  if (record.size() < kHeaderBytes) throw DamagedRecord("truncated: the record's length is cut off");
  const uint64_t length = DataBytes(record.data(), record.size());
  const auto data = record.subspan(kHeaderBytes, length);
  if (MaskedCrc32c(data.data(), length) != LoadLittleEndian<uint32_t>(record.data() + kHeaderBytes + length)) {
    throw DamagedRecord("the CRC of the record's data is wrong");
  }
  return data;
}

ImageExample ParseComplete(std::span<const uint8_t> data) {
  ImageExample example = ParseImageExample(data);
  const char* missing = !example.image ? "image/encoded" : !example.values ? "image/class/label" : nullptr;
  if (missing == nullptr) return example;
  const std::string names = Joined(example.features);
  throw DataError(std::string("the tf.Example has no ") + missing + "; it has: " + (names.empty() ? "nothing" : names),
                  "expected image/encoded (bytes) and image/class/label (int64; of numbers float)");
}

}  // namespace

ImageExample ParseImageExample(Bytes bytes) {
  ImageExample example;
  for (ProtobufReader message = ExampleReader(bytes); message.Next();) {
    if (!message.IsBytes(1)) continue;
    for (ProtobufReader features = message.Inner(); features.Next();) {
      if (features.IsBytes(1)) ParseFeature(features.Inner(), example);
    }
  }
  return example;
}

std::string MakeImageExample(const PackedImage& image, int64_t first_label) {
  ProtobufWriter features;
  std::vector<uint64_t> classes;
  if (image.kind == LabelKind::kClass) classes.push_back(static_cast<uint64_t>(image.label + first_label));
  if (image.kind == LabelKind::kSeveral) {
    for (const float value : image.values)
      classes.push_back(static_cast<uint64_t>(value) + static_cast<uint64_t>(first_label));
  }
  if (image.kind == LabelKind::kNumbers) {
    AddFeature("image/class/label", kFloatList, ProtobufWriter().PackedFloats(1, image.values), features);
  } else {
    AddFeature("image/class/label", kInt64List, ProtobufWriter().PackedVarints(1, classes), features);
  }
  if (!image.class_name.empty()) AddBytes("image/class/text", image.class_name, features);
  if (!image.file_name.empty()) AddBytes("image/filename", image.file_name, features);
  AddBytes("image/encoded", AsText(image.bytes), features);
  return ProtobufWriter().Message(1, features).bytes();
}

std::string FrameTfRecord(std::string_view data) {
  std::string record;
  record.reserve(data.size() + kHeaderBytes + kTrailerBytes);
  AppendLittleEndian<uint64_t>(data.size(), record);
  AppendLittleEndian(MaskedCrc32c(record.data(), 8), record);
  record.append(data);
  AppendLittleEndian(MaskedCrc32c(data.data(), data.size()), record);
  return record;
}

std::optional<std::string_view> UnframeTfRecord(std::string_view bytes) {
  try {
    const auto data = CheckedData(AsBytes(bytes));
    return bytes.substr(kHeaderBytes, data.size());
  } catch (const DamagedRecord&) {
    return std::nullopt;
  }
}

namespace {

class TfRecordFormat : public RecordFormat {
 public:
  std::string name() const override { return "tfrecord"; }
  std::string description() const override { return "TensorFlow's record files with an Example for each image"; }
  std::vector<std::string> extensions() const override { return {".tfrecord", ".tfrecords", ".tfrec", ".record"}; }
  bool is_numbered() const override { return true; }
  bool Holds(LabelKind /*kind*/) const override { return true; }

  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override {
    const uint64_t left = file.size() - offset;
    if (left == 0) return std::nullopt;
    if (left < kHeaderBytes) throw DamagedRecord("truncated: the record's length is cut off", file.size());
    std::array<uint8_t, kHeaderBytes> header{};
    file.Read(offset, kHeaderBytes, header.data());
    const uint64_t bytes = kHeaderBytes + DataBytes(header.data(), left) + kTrailerBytes;
    const std::vector<uint8_t> record = file.ReadBytes(offset, bytes);
    try {
      ImageExample example = ParseComplete(CheckedData(record));
      return ScannedRecord{offset, offset + bytes, example.label.value_or(-1), std::move(*example.values)};
    } catch (const DamagedRecord& damage) {
      throw DamagedRecord(damage.what(), offset + bytes);
    }
  }

  Beginning beginning() const override { return {.bytes = kHeaderBytes, .is_certain = true}; }
  bool MayBegin(const uint8_t* bytes) const override { return HasCrc(bytes); }

  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override {
    const std::span<const uint8_t> image = *ParseComplete(CheckedData(record)).image;
    const auto begin = static_cast<uint64_t>(image.data() - record.data());
    return PartOf(std::move(record), begin, image.size());
  }

  int64_t first_label() const override { return 1; }  // as in TensorFlow's ImageNet scripts

  std::string FileName(const std::string& split, int64_t number, int64_t count) const override {
    return split + "-" + WithZeros(number, 5) + "-of-" + WithZeros(count, 5);
  }

  std::string Frame(const PackedImage& image) const override {
    return FrameTfRecord(MakeImageExample(image, first_label()));
  }
};

}  // namespace

const RecordFormat& TfRecordFiles() {
  static const TfRecordFormat format;
  return format;
}

}  // namespace dtrain::data
