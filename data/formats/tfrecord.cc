// https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
#include "data/formats/tfrecord.h"

#include <algorithm>
#include <array>

#include "data/formats/crc32c.h"
#include "data/formats/little_endian.h"
#include "data/formats/tf_example.h"
#include "data/joined.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kHeaderBytes = 12;  // the length and its CRC
constexpr uint64_t kTrailerBytes = 4;  // the CRC of the data
constexpr uint64_t kSearchBytes = uint64_t{1} << 20;

bool IsHeader(const uint8_t* bytes) {
  return MaskedCrc32c(bytes, 8) == LoadLittleEndian<uint32_t>(bytes + 8) &&
         LoadLittleEndian<uint64_t>(bytes) <= kMostRecordBytes;
}

// Returns the length of the data, given the header of a record of at most `available` bytes. Throws DamagedRecord.
uint64_t DataBytes(const uint8_t* header, uint64_t available) {
  const auto length = LoadLittleEndian<uint64_t>(header);
  if (MaskedCrc32c(header, 8) != LoadLittleEndian<uint32_t>(header + 8)) {
    throw DamagedRecord("the CRC of the record's length is wrong");
  }
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
  const char* missing = !example.image ? "image/encoded" : !example.label ? "image/class/label" : nullptr;
  if (missing == nullptr) return example;
  const std::string names = Joined(example.features);
  throw DataError(std::string("the tf.Example has no ") + missing + "; it has: " + (names.empty() ? "nothing" : names),
                  "expected image/encoded (bytes) and image/class/label (int64)");
}

std::vector<uint8_t> ReadBytes(const ReadableBytes& file, uint64_t offset, uint64_t size) {
  std::vector<uint8_t> bytes(size);
  file.Read(offset, size, bytes.data());
  return bytes;
}

// Whether a complete and intact record begins at `offset`; `header` is its first 12 bytes, whose CRC fits.
bool IsRecord(const ReadableBytes& file, uint64_t offset, const uint8_t* header) {
  const uint64_t left = file.size() - offset;
  const uint64_t bytes = kHeaderBytes + LoadLittleEndian<uint64_t>(header) + kTrailerBytes;
  if (bytes > left) return false;
  try {
    CheckedData(ReadBytes(file, offset, bytes));
    return true;
  } catch (const DamagedRecord&) {
    return false;
  }
}

}  // namespace

std::optional<ScannedRecord> TfRecordFormat::Scan(const ReadableBytes& file, uint64_t offset) const {
  const uint64_t left = file.size() - offset;
  if (left == 0) return std::nullopt;
  if (left < kHeaderBytes) throw DamagedRecord("truncated: the record's length is cut off", file.size());
  std::array<uint8_t, kHeaderBytes> header{};
  file.Read(offset, kHeaderBytes, header.data());
  const uint64_t bytes = kHeaderBytes + DataBytes(header.data(), left) + kTrailerBytes;
  const std::vector<uint8_t> record = ReadBytes(file, offset, bytes);
  try {
    return ScannedRecord{offset, offset + bytes, *ParseComplete(CheckedData(record)).label};
  } catch (const DamagedRecord& damage) {
    throw DamagedRecord(damage.what(), offset + bytes);
  }
}

uint64_t TfRecordFormat::FindRecord(const ReadableBytes& file, uint64_t from) const {
  std::vector<uint8_t> window;
  for (; file.size() - from >= kHeaderBytes; from += window.size() - kHeaderBytes + 1) {
    window = ReadBytes(file, from, std::min(kSearchBytes, file.size() - from));
    for (uint64_t i = 0; i + kHeaderBytes <= window.size(); ++i) {
      if (IsHeader(&window[i]) && IsRecord(file, from + i, &window[i])) return from + i;
    }
  }
  return file.size();
}

std::vector<uint8_t> TfRecordFormat::Image(std::vector<uint8_t> record) const {
  const std::span<const uint8_t> image = *ParseComplete(CheckedData(record)).image;
  const auto begin = image.data() - record.data();
  record.resize(static_cast<size_t>(begin) + image.size());
  record.erase(record.begin(), record.begin() + begin);
  return record;
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
    const auto data = CheckedData({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    return bytes.substr(kHeaderBytes, data.size());
  } catch (const DamagedRecord&) {
    return std::nullopt;
  }
}

}  // namespace dtrain::data
