// ITU T.81, annex B. A segment is ignored only if it cannot change the pixels.
#include "data/image/jpeg/baseline_header.h"

#include <algorithm>
#include <cstring>

namespace dtrain::data {
namespace {

using Bytes = std::span<const uint8_t>;

enum Marker : uint8_t {
  kSof0 = 0xC0,  // baseline
  kSof1 = 0xC1,  // extended sequential, Huffman
  kDht = 0xC4,
  kSoi = 0xD8,
  kEoi = 0xD9,
  kSos = 0xDA,
  kDqt = 0xDB,
  kDri = 0xDD,
  kApp0 = 0xE0,
  kApp14 = 0xEE,
  kApp15 = 0xEF,
  kCom = 0xFE,
};

int Word(Bytes bytes, size_t at) { return bytes[at] << 8 | bytes[at + 1]; }

class HeaderReader {
 public:
  explicit HeaderReader(Bytes bytes) : bytes_(bytes) {}

  bool Read() {
    const size_t size = bytes_.size();
    if (size < 4 || bytes_[0] != 0xFF || bytes_[1] != kSoi) return false;
    if (bytes_[size - 2] != 0xFF || bytes_[size - 1] != kEoi) return false;  // libjpeg decides if it is truncated
    for (size_t at = 2; at + 4 <= size;) {
      if (bytes_[at] != 0xFF) return false;
      const uint8_t marker = bytes_[at + 1];
      if (marker == 0xFF) {  // a fill byte
        ++at;
        continue;
      }
      const auto length = static_cast<size_t>(Word(bytes_, at + 2));
      if (length < 2 || at + 2 + length > size) return false;
      const Bytes segment = bytes_.subspan(at + 4, length - 2);
      if (!ReadSegment(marker, segment)) return false;
      if (marker == kSos) {
        header_.scan_header = at;
        header_.scan = bytes_.subspan(at + 2 + length);
        return Complete();
      }
      at += 2 + length;
    }
    return false;
  }

  const BaselineHeader& header() const { return header_; }

 private:
  bool ReadSegment(uint8_t marker, Bytes segment) {
    switch (marker) {
      case kSof0:
      case kSof1:
        return ReadFrame(segment);
      case kDht:
        return ReadHuffman(segment);
      case kDqt:
        return ReadQuantisation(segment);
      case kDri:
        if (segment.size() != 2) return false;
        header_.restart_interval = Word(segment, 0);
        return true;
      case kSos:
        return ReadScan(segment);
      case kApp0:
        jfif_ = jfif_ || (segment.size() >= 5 && std::equal(segment.begin(), segment.begin() + 5, "JFIF"));
        return true;
      case kApp14:
        // Adobe's marker: the last byte is the colour transform, 1 for YCbCr.
        if (segment.size() >= 12 && std::equal(segment.begin(), segment.begin() + 5, "Adobe")) {
          adobe_ = true;
          if (segment[11] != 1) return false;
        }
        return true;
      case kSeekPointsMarker:
        seek_points_ = segment;
        return true;
      default:
        return (marker > kApp0 && marker <= kApp15) || marker == kCom;
    }
  }

  bool ReadFrame(Bytes segment) {
    if (header_.components != 0 || segment.size() < 6 || segment[0] != 8) return false;
    header_.size = {Word(segment, 3), Word(segment, 1)};
    const int components = segment[5];
    if (header_.size.width < 1 || header_.size.height < 1 || (components != 1 && components != 3)) return false;
    if (segment.size() != 6 + 3 * static_cast<size_t>(components)) return false;
    header_.components = components;
    for (int i = 0; i < components; ++i) {
      const uint8_t* entry = segment.data() + 6 + ptrdiff_t{3} * i;
      JpegComponent& component = header_.component[static_cast<size_t>(i)];
      component = {.id = entry[0], .across = entry[1] >> 4, .down = entry[1] & 15, .quantisation = entry[2]};
      const int most = i == 0 ? 2 : 1;
      if (component.across < 1 || component.across > most || component.down < 1 || component.down > most) return false;
      if (component.quantisation > 3) return false;
    }
    // The blocks of a single component are not grouped, whatever its sampling factors are.
    if (components == 1) header_.component[0].across = header_.component[0].down = 1;
    return true;
  }

  bool ReadHuffman(Bytes segment) {
    while (!segment.empty()) {
      if (segment.size() < 17 || (segment[0] & 0xEC) != 0) return false;
      HuffmanCodes& codes = (segment[0] >> 4 == 0 ? header_.dc : header_.ac)[segment[0] & 3];
      codes = {};
      size_t total = 0;
      for (size_t bits = 1; bits <= 16; ++bits) total += codes.count[bits] = segment[bits];
      if (total > 256 || segment.size() < 17 + total) return false;
      std::copy_n(segment.begin() + 17, total, codes.symbols.begin());
      codes.defined = true;
      segment = segment.subspan(17 + total);
    }
    return true;
  }

  bool ReadQuantisation(Bytes segment) {
    while (!segment.empty()) {
      const size_t width = segment[0] >> 4 == 0 ? 1 : 2;
      if ((segment[0] & 0xEC) != 0 || segment.size() < 1 + 64 * width) return false;
      auto& table = header_.quantisation[segment[0] & 3];
      for (size_t i = 0; i < 64; ++i) {
        table[i] = static_cast<uint16_t>(width == 1 ? segment[1 + i] : Word(segment, 1 + 2 * i));
      }
      defined_quantisation_ |= 1 << (segment[0] & 3);
      segment = segment.subspan(1 + 64 * width);
    }
    return true;
  }

  // Accepts one scan with all components in the order of the frame.
  bool ReadScan(Bytes segment) {
    const auto components = static_cast<size_t>(header_.components);
    if (components == 0 || segment.size() != 4 + 2 * components || segment[0] != components) return false;
    for (size_t i = 0; i < components; ++i) {
      JpegComponent& component = header_.component[i];
      const uint8_t tables = segment[2 + 2 * i];
      if (segment[1 + 2 * i] != component.id || (tables & 0xCC) != 0) return false;
      component.dc = tables >> 4;
      component.ac = tables & 15;
    }
    const uint8_t* spectral = segment.data() + 1 + 2 * components;
    return spectral[0] == 0 && spectral[1] == 63 && spectral[2] == 0;
  }

  bool Complete() {
    for (int i = 0; i < header_.components; ++i) {
      const JpegComponent& component = header_.component[static_cast<size_t>(i)];
      if ((defined_quantisation_ >> component.quantisation & 1) == 0) return false;
      if (!header_.dc[static_cast<size_t>(component.dc)].defined) return false;
      if (!header_.ac[static_cast<size_t>(component.ac)].defined) return false;
    }
    header_.seek_points = ReadSeekPoints(seek_points_, header_.units_across(), header_.units_down(), header_.components,
                                         header_.scan.size());
    // If no marker says so, three components are YCbCr if their ids are 1, 2, 3.
    const auto& [first, second, third] = header_.component;
    return header_.components == 1 || jfif_ || adobe_ || (first.id == 1 && second.id == 2 && third.id == 3);
  }

  Bytes bytes_;
  BaselineHeader header_;
  Bytes seek_points_;  // the last segment that may hold seek points
  int defined_quantisation_ = 0;
  bool jfif_ = false, adobe_ = false;
};

// Returns the offset of the next FF from `at` on that no zero follows, or bytes.size() if there is none.
size_t FindMarker(Bytes bytes, size_t at) {
  while (at + 1 < bytes.size()) {
    const void* found = std::memchr(bytes.data() + at, 0xFF, bytes.size() - 1 - at);
    if (found == nullptr) break;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    if (bytes[at + 1] != 0) return at;
    at += 2;
  }
  return bytes.size();
}

bool CutAtRestartMarkers(const BaselineHeader& header, std::vector<ScanPiece>& pieces) {
  const int64_t units = int64_t{header.units_across()} * header.units_down();
  size_t at = 0;
  for (int64_t begin = 0; begin < units; begin += header.restart_interval) {
    const size_t marker = FindMarker(header.scan, at);
    if (marker == header.scan.size()) return false;
    const int64_t end = std::min(units, begin + header.restart_interval);
    const auto number = static_cast<uint8_t>(begin / header.restart_interval % 8);
    if (end < units && header.scan[marker + 1] != 0xD0 + number) return false;
    pieces.push_back({.begin = begin, .end = end, .bytes = header.scan.subspan(at, marker - at)});
    at = marker + 2;
  }
  return true;
}

void CutAtSeekPoints(const BaselineHeader& header, std::vector<ScanPiece>& pieces) {
  const SeekPoints& points = *header.seek_points;
  const int64_t across = header.units_across(), units = across * header.units_down();
  ScanPiece piece;
  size_t at = 0, place = 0;
  while (piece.begin < units) {
    const int64_t column = piece.begin % across;
    piece.end = piece.begin + std::min<int64_t>(points.units, across - column);
    const bool last = piece.end == units;
    const SeekPoint next = last ? SeekPoint{} : points.Get(place++);
    const size_t size = last ? header.scan.size() - at : next.bytes + (next.bit > 0 ? 1 : 0);
    piece.bytes = header.scan.subspan(at, std::min(size, header.scan.size() - at));
    pieces.push_back(piece);
    at = std::min(at + next.bytes, header.scan.size());
    piece = {.begin = piece.end, .end = 0, .bytes = {}, .first_bit = next.bit, .dc = next.dc};
  }
}

}  // namespace

std::optional<BaselineHeader> ReadBaselineHeader(std::span<const uint8_t> bytes) {
  HeaderReader reader(bytes);
  if (!reader.Read()) return std::nullopt;
  return reader.header();
}

bool CutScan(const BaselineHeader& header, std::vector<ScanPiece>& pieces) {
  pieces.clear();
  if (header.restart_interval > 0) return CutAtRestartMarkers(header, pieces);
  if (header.seek_points) {
    CutAtSeekPoints(header, pieces);
  } else {
    pieces.push_back({.end = int64_t{header.units_across()} * header.units_down(), .bytes = header.scan});
  }
  return true;
}

std::span<const uint8_t> WithoutStuffing(Bytes bytes, size_t padding, std::vector<uint8_t>& memory) {
  if (memory.size() < bytes.size() + padding) memory.resize(bytes.size() + padding);
  uint8_t* to = memory.data();
  while (!bytes.empty()) {
    const void* found = std::memchr(bytes.data(), 0xFF, bytes.size());
    const size_t plain =
        found == nullptr ? bytes.size() : static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    std::memcpy(to, bytes.data(), plain);
    to += plain;
    bytes = bytes.subspan(plain);
    if (bytes.empty()) break;
    if (bytes.size() > 1 && bytes[1] != 0) break;  // a marker
    *to++ = 0xFF;                                  // a piece may end between FF and its zero
    bytes = bytes.subspan(std::min<size_t>(2, bytes.size()));
  }
  return {memory.data(), to};
}

}  // namespace dtrain::data
