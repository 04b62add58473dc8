// MXNet's record files (.rec). A record is a magic number, 3 bits of continuation and 29 of length, the data, and
// padding to 4 bytes; the data is an IRHeader (flag, label, id, id2), then `flag` labels of 4 bytes, then the image. If
// the data holds the magic number at a multiple of 4, the writer omits it and splits the record there, so that a magic
// number in the file always begins a frame.
//
// https://github.com/dmlc/dmlc-core/blob/main/include/dmlc/recordio.h and python/mxnet/recordio.py (IRHeader: "IfQQ")
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "data/formats/little_endian.h"
#include "data/formats/record_format.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr uint32_t kRecordMagic = 0xCED7230A;
constexpr uint64_t kFrameBytes = 8;  // the magic, then continuation and length
constexpr uint64_t kHeaderBytes = 24;

// Which part of a record a frame holds.
enum Continuation : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

constexpr uint64_t Padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

struct Part {
  uint32_t continuation = kWhole;
  uint64_t begin = 0, bytes = 0;  // of the data
  uint64_t end() const { return begin + Padded(bytes); }
};

Part ReadPart(const ReadableBytes& file, uint64_t offset) {
  if (file.size() - offset < kFrameBytes) throw DamagedRecord("truncated: a record's frame is cut off");
  std::array<uint8_t, kFrameBytes> frame{};
  file.Read(offset, kFrameBytes, frame.data());
  if (LoadLittleEndian<uint32_t>(frame.data()) != kRecordMagic) {
    throw DamagedRecord("no RecordIO record begins here (the magic number is missing)");
  }
  const auto word = LoadLittleEndian<uint32_t>(&frame[4]);
  const Part part{word >> 29, offset + kFrameBytes, word & ((1U << 29) - 1)};
  if (part.bytes > kMostRecordBytes) throw DamagedRecord("a record of " + std::to_string(part.bytes) + " bytes");
  if (part.bytes > file.size() - part.begin) {
    throw DamagedRecord("truncated: " + std::to_string(part.bytes) + " bytes, of which " +
                        std::to_string(file.size() - part.begin) + " are left");
  }
  return part;
}

// Returns all parts of the record that begins at `offset`, at least one.
std::vector<Part> ReadParts(const ReadableBytes& file, uint64_t offset) {
  std::vector<Part> parts = {ReadPart(file, offset)};
  if (parts[0].continuation > kFirst) throw DamagedRecord("a later part of a record whose first part is missing");
  uint64_t bytes = parts[0].bytes;
  while (parts.back().continuation != kWhole && parts.back().continuation != kLast) {
    if (parts.back().end() > file.size()) throw DamagedRecord("truncated: the last parts of a record are cut off");
    const Part part = ReadPart(file, parts.back().end());
    if (part.continuation < kMiddle) throw DamagedRecord("a record whose last part is missing");
    bytes += 4 + part.bytes;
    if (bytes > kMostRecordBytes) throw DamagedRecord("a record of more than " + std::to_string(bytes) + " bytes");
    parts.push_back(part);
  }
  return parts;
}

// Returns the first `most` bytes of the data, with the omitted magic numbers put back.
std::vector<uint8_t> Join(const ReadableBytes& file, const std::vector<Part>& parts, uint64_t most) {
  std::vector<uint8_t> data;
  for (const Part& part : parts) {
    if (data.size() >= most) break;
    if (&part != &parts.front()) {
      const auto* magic = reinterpret_cast<const uint8_t*>(&kRecordMagic);
      data.insert(data.end(), magic, magic + 4);
    }
    const uint64_t bytes = std::min(part.bytes, most > data.size() ? most - data.size() : 0);
    data.resize(data.size() + bytes);
    file.Read(part.begin, bytes, data.data() + data.size() - bytes);
  }
  return data;
}

// The label, and where the image begins within the data.
struct ImageHeader {
  int64_t label = 0;
  uint64_t image_begin = 0;
};

ImageHeader ParseHeader(std::span<const uint8_t> data, uint64_t data_bytes) {
  if (data.size() < kHeaderBytes)
    throw DamagedRecord("a record of " + std::to_string(data.size()) + " bytes has no header");
  const auto label_count = LoadLittleEndian<uint32_t>(data.data());
  auto label = LoadLittleEndian<float>(&data[4]);
  if (label_count > (data_bytes - kHeaderBytes) / 4) {
    throw DamagedRecord("a record of " + std::to_string(data_bytes) + " bytes with " + std::to_string(label_count) +
                        " labels");
  }
  if (label_count > 0) label = LoadLittleEndian<float>(&data[kHeaderBytes]);
  if (!(label >= 0 && label <= kMostClass && std::floor(label) == label)) {
    throw DamagedRecord("label " + std::to_string(label) + " is not a class");
  }
  return {static_cast<int64_t>(label), kHeaderBytes + uint64_t{4} * label_count};
}

uint64_t DataBytes(const std::vector<Part>& parts) {
  uint64_t bytes = 4 * (parts.size() - 1);
  for (const Part& part : parts) bytes += part.bytes;
  return bytes;
}

// Takes the first label of a label array. The format has no checksums, so a label that is not a class counts as damage.
class RecordIoFormat : public RecordFormat {
 public:
  std::string name() const override { return "recordio"; }
  std::string description() const override { return "MXNet's record files"; }
  std::vector<std::string> extensions() const override { return {".rec"}; }

  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override {
    if (offset >= file.size()) return std::nullopt;
    const std::vector<Part> parts = ReadParts(file, offset);
    const uint64_t end = std::min(parts.back().end(), file.size());  // the padding at the file's end may be missing
    try {
      const ImageHeader header = ParseHeader(Join(file, parts, kHeaderBytes + 4), DataBytes(parts));
      return ScannedRecord{offset, end, header.label};
    } catch (const DamagedRecord& damage) {
      throw DamagedRecord(damage.what(), end);
    }
  }

  Beginning beginning() const override { return {.bytes = kFrameBytes, .alignment = 4}; }
  bool MayBegin(const uint8_t* bytes) const override { return LoadLittleEndian<uint32_t>(bytes) == kRecordMagic; }

  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override {
    const MemoryBytes bytes(record);
    const std::vector<Part> parts = ReadParts(bytes, 0);
    if (parts.back().end() < record.size())
      throw DamagedRecord("the record is shorter than its entry in the index says");
    std::vector<uint8_t> data = Join(bytes, parts, kMostRecordBytes);
    const uint64_t begin = ParseHeader(data, data.size()).image_begin, size = data.size() - begin;
    return PartOf(std::move(data), begin, size);
  }

  // MXNet's FILE.idx for FILE.rec: one "KEY<tab>OFFSET" per line.
  std::string IndexBeside(const std::string& path) const override { return path.substr(0, path.size() - 4) + ".idx"; }

  std::vector<IndexEntry> KnownRecords(std::string_view index, uint64_t rec_bytes) const override {
    std::istringstream text{std::string(index)};
    std::vector<uint64_t> offsets;
    std::string key;
    for (uint64_t offset = 0; text >> key >> offset;) offsets.push_back(offset);
    std::sort(offsets.begin(), offsets.end());
    const bool fits = !offsets.empty() && offsets.front() == 0 && offsets.back() < rec_bytes &&
                      std::adjacent_find(offsets.begin(), offsets.end()) == offsets.end();
    if (!fits) return {};
    std::vector<IndexEntry> entries;
    for (size_t i = 0; i < offsets.size(); ++i) {
      const uint64_t end = i + 1 < offsets.size() ? offsets[i + 1] : rec_bytes;
      entries.push_back({offsets[i], end - offsets[i], 0, -1});
    }
    return entries;
  }

  std::string MakeIndex(std::span<const PlacedRecord> records) const override {
    std::string lines;
    for (const PlacedRecord& record : records) {
      lines += std::to_string(record.index) + "\t" + std::to_string(record.offset) + "\n";
    }
    return lines;
  }

  // Splits a record into several parts if its data holds the magic number.
  std::string Frame(const PackedImage& image) const override {
    std::string data;
    AppendLittleEndian<uint32_t>(0, data);  // no label array
    AppendLittleEndian(static_cast<float>(image.label + first_label()), data);
    AppendLittleEndian(static_cast<uint64_t>(image.index), data);
    AppendLittleEndian<uint64_t>(0, data);
    data += AsText(image.bytes);

    std::string out;
    const auto append = [&](Continuation continuation, size_t begin, size_t end) {
      AppendLittleEndian(kRecordMagic, out);
      AppendLittleEndian(static_cast<uint32_t>(continuation << 29 | (end - begin)), out);
      out.append(data, begin, end - begin);
    };
    size_t begin = 0;
    for (size_t i = 0; i + 4 <= data.size(); i += 4) {
      if (LoadLittleEndian<uint32_t>(&data[i]) != kRecordMagic) continue;
      append(begin == 0 ? kFirst : kMiddle, begin, i);
      begin = i + 4;
    }
    append(begin == 0 ? kWhole : kLast, begin, data.size());
    out.resize(Padded(out.size()));
    return out;
  }
};

}  // namespace

const RecordFormat& RecordIoFiles() {
  static const RecordIoFormat format;
  return format;
}

}  // namespace dtrain::data
