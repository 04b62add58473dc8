#include <cstring>
#include <string>

#include "data/formats/crc32c.h"
#include "data/formats/little_endian.h"
#include "data/image/jpeg/baseline_header.h"
#include "data/image/jpeg/blocks.h"

namespace dtrain::data {
namespace {

constexpr char kName[] = "dtrain seek 1";              // with the terminating zero
constexpr size_t kHeaderBytes = sizeof kName + 4 + 2;  // the name, the scan's bytes, and the units between points
constexpr size_t kChecksumBytes = 4;
constexpr size_t kMostSegmentBytes = 65'533;
constexpr int kUnits = 4;  // 64 pixels of a photograph; adds 2 % to its bytes

int64_t PointCount(int64_t units_across, int64_t units_down, int units) {
  return (units_across + units - 1) / units * units_down - 1;
}

size_t PointBytes(int components) { return 3 + 2 * static_cast<size_t>(components); }

// The beginning of a unit, as a bit of the scan without stuffed zeros, and the DC values of the unit before.
struct Position {
  ptrdiff_t bit = 0;
  std::array<int, 3> dc{};
};

// Returns the positions of every `units`-th unit of each row except the first of the image. Returns none if the scan
// does not match the header.
std::vector<Position> FindPositions(const BaselineHeader& header, std::span<const uint8_t> scan, int units) {
  EntropyTables tables;
  if (!tables.Use(header)) return {};
  BitReader reader(scan, 0);
  Position position;
  std::vector<Position> positions;
  for (int64_t row = 0; row < header.units_down(); ++row) {
    for (int64_t column = 0; column < header.units_across(); ++column) {
      position.bit = 8 * static_cast<ptrdiff_t>(scan.size()) - reader.left();
      if (column % units == 0 && position.bit > 0) positions.push_back(position);
      if (!tables.SkipUnit(reader, position.dc)) return {};
    }
  }
  return positions;
}

// Returns the segment with its marker, or nothing if two points are too far apart.
std::string MakeSegment(const BaselineHeader& header, std::span<const Position> positions, int units) {
  std::string segment(kName, sizeof kName);
  AppendLittleEndian(static_cast<uint32_t>(header.scan.size()), segment);
  AppendLittleEndian(static_cast<uint16_t>(units), segment);
  ptrdiff_t clean = 0;  // bytes without stuffing up to `at`
  size_t at = 0, before = 0;
  for (const Position& position : positions) {
    for (; clean < position.bit / 8; ++clean) at += header.scan[at] == 0xFF ? 2 : 1;
    if (at - before > UINT16_MAX) return "";
    AppendLittleEndian(static_cast<uint16_t>(at - before), segment);
    AppendLittleEndian(static_cast<uint8_t>(position.bit % 8), segment);
    for (int c = 0; c < header.components; ++c) {
      AppendLittleEndian(static_cast<int16_t>(position.dc[static_cast<size_t>(c)]), segment);
    }
    before = at;
  }
  AppendLittleEndian(Crc32c(segment.data(), segment.size()), segment);
  const size_t length = segment.size() + 2;
  return std::string{'\xFF', static_cast<char>(kSeekPointsMarker), static_cast<char>(length >> 8),
                     static_cast<char>(length)} +
         segment;
}

}  // namespace

SeekPoint SeekPoints::Get(size_t i) const {
  const uint8_t* at = packed.data() + i * PointBytes(components);
  SeekPoint point{.bytes = LoadLittleEndian<uint16_t>(at), .bit = at[2] & 7};
  for (int c = 0; c < components; ++c) {
    point.dc[static_cast<size_t>(c)] = LoadLittleEndian<int16_t>(at + 3 + ptrdiff_t{2} * c);
  }
  return point;
}

std::optional<SeekPoints> ReadSeekPoints(std::span<const uint8_t> segment, int64_t units_across, int64_t units_down,
                                         int components, size_t scan_bytes) {
  if (segment.size() < kHeaderBytes + kChecksumBytes) return std::nullopt;
  if (std::memcmp(segment.data(), kName, sizeof kName) != 0) return std::nullopt;
  const size_t checked = segment.size() - kChecksumBytes;
  if (LoadLittleEndian<uint32_t>(segment.data() + checked) != Crc32c(segment.data(), checked)) return std::nullopt;
  const uint8_t* numbers = segment.data() + sizeof kName;
  const SeekPoints points{.units = LoadLittleEndian<uint16_t>(numbers + 4),
                          .components = components,
                          .packed = segment.first(checked).subspan(kHeaderBytes)};
  if (LoadLittleEndian<uint32_t>(numbers) != scan_bytes || points.units == 0) return std::nullopt;
  const auto count = static_cast<size_t>(PointCount(units_across, units_down, points.units));
  if (points.packed.size() != count * PointBytes(components)) return std::nullopt;
  return points;
}

std::vector<uint8_t> AddSeekPoints(std::vector<uint8_t> jpeg) {
  const std::optional<BaselineHeader> header = ReadBaselineHeader(jpeg);
  if (!header || header->restart_interval > 0 || header->seek_points) return jpeg;
  const int across = header->units_across(), down = header->units_down();
  const size_t most_points = (kMostSegmentBytes - kHeaderBytes - kChecksumBytes) / PointBytes(header->components);
  int units = kUnits;
  while (PointCount(across, down, units) > static_cast<int64_t>(most_points)) {
    if (units >= across) return jpeg;  // even one point per row is too many
    units *= 2;
  }
  std::vector<uint8_t> memory;
  const auto scan = WithoutStuffing(header->scan, BitReader::kPadding, memory);
  const std::vector<Position> positions = FindPositions(*header, scan, units);
  const std::string segment = positions.empty() ? "" : MakeSegment(*header, positions, units);
  jpeg.insert(jpeg.begin() + static_cast<ptrdiff_t>(header->scan_header), segment.begin(), segment.end());
  return jpeg;
}

}  // namespace dtrain::data
